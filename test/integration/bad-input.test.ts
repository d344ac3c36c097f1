/** Bad input on a running farm: sources, Models, names. Each has a code and a way out, and a good service beside it notices nothing. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, service } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { until } from "../bed/until.ts";
import { type BadFleet, startBadFleet } from "./bad-fleet.ts";

const MINUTE = 60_000;
describeUnless(whyNoNodeNetwork(), "a farm that is given bad input", () => {
  let bad: BadFleet;

  beforeAll(async () => {
    bad = await startBadFleet();
  });
  afterAll(() => bad?.[Symbol.asyncDispose](), MINUTE);
  afterEach(() => bad.expectUnharmed());

  /** Name of the Model, its source below the origin, phase, code, and the advice. */
  const sources = [
    ["unauthorized", "/401.gguf", "Failed", "SourceUnauthorized", "spec.sourceSecretRef"],
    ["missing-file", "/404.gguf", "Failed", "SourceNotFound", "check the source"],
    ["circle", "/redirects.gguf", "Failed", "SourceRedirects", "use the final address"],
    ["silent", "/silent.gguf", "Pending", "SourceStalled", "check the network"],
    ["short", "/short.gguf", "Failed", "GgufTruncated", "upload the file again"],
    ["page", "/page.gguf", "Failed", "SourceIsNotAModel", "direct download URL"],
    ["empty", "/empty.gguf", "Failed", "SourceEmpty", "upload the file again"],
    ["closed-port", "http://127.0.0.1:1/m.gguf", "Pending", "SourceUnreachable", "check the host name"],
    ["metadata", "http://169.254.169.254/m.gguf", "Failed", "SourceNotAllowed", "allow it"],
  ] as const;

  it("says of each source that cannot be read why, in its Model and in the service", async () => {
    const { hostName } = bad.farm;
    const urlOf = (source: string) => (source.startsWith("/") ? bad.origin.url + source : source);
    await bad.apply(
      ...sources.flatMap(([name, source]) => [model(name, urlOf(source)), service(name, hostName)]),
    );
    const check = async ([name, , phase, code, advice]: (typeof sources)[number]) => {
      const { status } = await bad.get(MODELS, name);
      expect(status).toMatchObject({ phase, reason: code, message: expect.stringContaining(advice) });
      const isFinal = phase === "Failed";
      expect((await bad.get(INFERENCE_SERVICES, name)).status).toMatchObject({
        phase: isFinal ? "Failed" : "Pending",
        reason: isFinal ? "ModelFailed" : "ModelNotReady",
        message: expect.stringContaining(code),
      });
      expect(await bad.replicasOf(name)).toEqual([]);
    };
    await Promise.all(sources.map((source) => until(() => check(source), { everyMs: 250 })));
  });

  /** What only the host that downloads can find out. */
  const downloads = [
    ["cut", "/cut.gguf", {}, "SourceTruncated", "resumed automatically"],
    ["stalls", "/stalls.gguf", {}, "SourceStalled", "resumed automatically"],
    ["forged", "/good.gguf", { sha256: "0".repeat(64) }, "ChecksumMismatch", "correct spec.sha256"],
  ] as const;

  it("says of each download that fails why, in the replica and in the service", async () => {
    const { hostName } = bad.farm;
    await bad.apply(
      ...downloads.flatMap(([name, source, spec]) => [
        model(name, bad.origin.url + source, spec),
        service(name, hostName),
      ]),
    );
    const check = async ([name, , , code, advice]: (typeof downloads)[number]) => {
      const [replica] = await bad.replicasOf(name);
      expect(replica?.status).toMatchObject({
        phase: code === "ChecksumMismatch" ? "Failed" : "Waiting",
        reason: code,
        message: expect.stringContaining(advice),
      });
      const { status } = await bad.get(INFERENCE_SERVICES, name);
      expect(status).toMatchObject({ reason: code, message: expect.stringContaining(advice) });
    };
    await Promise.all(downloads.map((download) => until(() => check(download), { everyMs: 250 })));
  });

  it("waits for a Model that is missing, and serves on without one that was deleted", async () => {
    await bad.apply(service("late", bad.farm.hostName));
    await until(
      async () => {
        expect((await bad.get(INFERENCE_SERVICES, "late")).status).toMatchObject({
          phase: "Pending",
          reason: "ModelNotFound",
          message: expect.stringContaining("create it or correct spec.modelRef"),
        });
      },
      { everyMs: 250 },
    );
    await bad.apply(model("late", `${bad.origin.url}/good.gguf`));
    await bad.services.untilReady("late");
    const [before] = await bad.replicasOf("late");
    await bad.farm.objects.remove("default", "mdl/late");
    await until(
      async () => {
        const { status } = await bad.get(INFERENCE_SERVICES, "late");
        expect(status).toMatchObject({ phase: "Degraded", readyReplicas: 1 });
        const degraded = status?.conditions?.find(({ type }) => type === "Degraded");
        expect(degraded).toMatchObject({
          status: "True",
          reason: "ModelNotFound",
          message: expect.stringContaining("create it"),
        });
      },
      { everyMs: 250 },
    );
    const [after] = await bad.replicasOf("late");
    expect(after?.metadata.uid).toBe(before?.metadata.uid);
    expect(after?.status).toMatchObject({ phase: "Ready", pid: before?.status?.pid, restarts: 0 });
    expect((await bad.services.chat("late", { max_tokens: 2 })).choices).toHaveLength(1);
  });

  it("serves two services of one name in two namespaces, one of the longest name, and one whose name was taken", async () => {
    const longest = `l${"o".repeat(48)}g`;
    const { hostName } = bad.farm;
    const source = `${bad.farm.modelsDir}/good.gguf`;
    await bad.farm.objects.createNamespace("other");
    const metadata = { name: "taken", namespace: "default" };
    await bad.apply({ apiVersion: "v1", kind: "Service", metadata, spec: { ports: [{ port: 80 }] } });
    await bad.apply(
      ...[model("good", source, {}, "other"), service("good", hostName, {}, "other")],
      ...[model(longest, source), service(longest, hostName)],
      ...[model("taken", source), service("taken", hostName)],
    );
    await until(
      async () => {
        expect((await bad.get(INFERENCE_SERVICES, "taken")).status).toMatchObject({
          phase: "Failed",
          reason: "ServiceNameTaken",
          message: expect.stringContaining("delete or rename it"),
        });
      },
      { everyMs: 250 },
    );
    expect(await bad.replicasOf("taken")).toEqual([]);
    await bad.farm.objects.remove("default", "service/taken");
    await until(
      async () => {
        const { status } = await bad.get(INFERENCE_SERVICES, "good", "other");
        expect(status).toMatchObject({ phase: "Ready" });
      },
      { everyMs: 250 },
    );
    await bad.services.untilReady(longest);
    await bad.services.untilReady("taken");
    const [here] = await bad.replicasOf("good");
    const [there] = await bad.replicasOf("good", "other");
    expect(there?.status?.pid).not.toBe(here?.status?.pid);
    for (const [name, namespace] of [
      [longest, "default"],
      ["taken", "default"],
      ["good", "other"],
    ] as const)
      expect((await bad.services.chat(name, { max_tokens: 2 }, namespace)).choices).toHaveLength(1);
  });
});
