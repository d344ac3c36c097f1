/** What a condition asks the user to do shows within seconds of being done, whatever it is: one row for each kind of correction. */
import { copyFileSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { HOSTS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { canRunNodeNetwork } from "../bed/node-network.ts";
import { type Origin, sendFile, startOrigin } from "../fixtures/origin.ts";
import { type BadFarm, startBadFarm } from "./bad-farm.ts";
import { model, service } from "./manifests.ts";

const can = canRunNodeNetwork();
const why = can.ok ? "" : ` (skipped: ${can.why})`;
const MINUTE = 60_000;
/** Five seconds for the correction, and as much again for machines on which everything takes longer. */
const SHOWN_MS = 10_000;
const PORT = 23_611;

interface Row {
  readonly name: string;
  /** Where the message is, and its reason until the correction. */
  readonly kind: "Model" | "InferenceService" | "InferenceReplica" | "Host";
  readonly reason: string;
  readonly break: () => Promise<void>;
  readonly correct: () => Promise<unknown>;
}

describe.skipIf(!can.ok)(`a farm whose users do what its conditions ask for${why}`, () => {
  let bad: BadFarm;
  let origin: Origin;

  beforeAll(async () => {
    bad = await startBadFarm();
    origin = await startOrigin();
    const weights = readFileSync(good());
    origin.serve("/open.gguf", weights);
    origin.on("/gated.gguf", (request, response) => {
      if (request.headers.authorization === "Bearer good") sendFile(request, response, weights);
      else response.writeHead(401).end();
    });
  });
  afterAll(async () => {
    await origin?.[Symbol.asyncDispose]();
    await bad?.[Symbol.asyncDispose]();
  }, MINUTE);

  const good = () => path.join(bad.farm.modelsDir, "good.gguf");
  const file = (name: string) => path.join(bad.farm.modelsDir, `${name}.gguf`);
  const secret = (name: string, data: Record<string, string>) => ({
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name, namespace: "default" },
    stringData: data,
  });
  const host = (name: string, spec: object) => ({
    apiVersion: "metalbridge.dev/v1alpha1",
    kind: "Host",
    metadata: { name },
    spec,
  });
  const address = () => bad.network.hostAddress;
  const served = (
    name: string,
    source: string,
    modelSpec: object = {},
    serviceSpec: object = {},
    on = bad.farm.hostName,
  ) => bad.apply(model(name, source, modelSpec), service(name, on, serviceSpec));
  const gate = { endpoint: { gate: "Never" } };

  const rows = (): readonly Row[] => [
    {
      ...{ name: "source-secret", kind: "Model", reason: "SourceSecretInvalid" },
      break: () =>
        bad.apply(model("source-secret", `${origin.url}/open.gguf`, { sourceSecretRef: { name: "late" } })),
      correct: () => bad.apply(secret("late", { HF_TOKEN: "good" })),
    },
    {
      ...{ name: "token", kind: "Model", reason: "SourceUnauthorized" },
      break: () =>
        bad.apply(
          secret("token", { HF_TOKEN: "bad" }),
          model("token", `${origin.url}/gated.gguf`, { sourceSecretRef: { name: "token" } }),
        ),
      correct: () => bad.apply(secret("token", { HF_TOKEN: "good" })),
    },
    {
      ...{ name: "edited", kind: "Model", reason: "SourceNotFound" },
      break: () => bad.apply(model("edited", `${origin.url}/nothing.gguf`)),
      correct: () => bad.apply(model("edited", `${origin.url}/open.gguf`)),
    },
    {
      ...{ name: "no-model", kind: "InferenceService", reason: "ModelNotFound" },
      break: () => bad.apply(service("no-model", bad.farm.hostName)),
      correct: () => bad.apply(model("no-model", good())),
    },
    {
      ...{ name: "no-file", kind: "InferenceReplica", reason: "SourceNotFound" },
      break: () => served("no-file", file("no-file")),
      correct: async () => copyFileSync(good(), file("no-file")),
    },
    {
      ...{ name: "no-gguf", kind: "InferenceReplica", reason: "SourceIsNotAModel" },
      break: () => {
        writeFileSync(file("no-gguf"), "<html>not here</html>".repeat(10));
        return served("no-gguf", file("no-gguf"));
      },
      correct: async () => copyFileSync(good(), file("no-gguf")),
    },
    {
      ...{ name: "no-key", kind: "InferenceReplica", reason: "SecretMissing" },
      break: () => served("no-key", good(), {}, { ...gate, auth: { secretRef: { name: "no-key" } } }),
      correct: () => bad.apply(secret("no-key", { apiKey: "k" })),
    },
    {
      ...{ name: "half-key", kind: "InferenceReplica", reason: "SecretIncomplete" },
      break: async () => {
        await bad.apply(secret("half-key", { other: "k" }));
        await served("half-key", good(), {}, { ...gate, auth: { secretRef: { name: "half-key" } } });
      },
      correct: () => bad.apply(secret("half-key", { apiKey: "k" })),
    },
    {
      ...{ name: "no-engine", kind: "InferenceService", reason: "HostRuntimeMissing" },
      break: async () => {
        await bad.agent("no-engine", { llamaServer: path.join(bad.dir, "late-server") });
        await served("no-engine", good(), {}, {}, "no-engine");
      },
      correct: async () => symlinkSync(bad.realEngine, path.join(bad.dir, "late-server")),
    },
    {
      ...{ name: "elsewhere", kind: "Host", reason: "AddressNotRegistered" },
      break: async () => {
        await bad.apply(host("elsewhere", { addresses: ["192.0.2.7"] }));
        await bad.agent("elsewhere");
        await bad.apply(host("elsewhere", { addresses: ["192.0.2.7"] }));
      },
      correct: () => bad.apply(host("elsewhere", { addresses: [address()] })),
    },
    {
      ...{ name: "no-port", kind: "InferenceReplica", reason: "PortsExhausted" },
      break: async () => {
        await new Promise<void>((resolve) => stranger.listen(PORT, "0.0.0.0", resolve));
        await bad.agent("no-port", { portRange: `${PORT}-${PORT}` });
        await served("no-port", good(), {}, {}, "no-port");
      },
      correct: () => new Promise((resolve) => stranger.close(resolve)),
    },
    {
      ...{ name: "no-room", kind: "InferenceReplica", reason: "DiskFull" },
      break: async () => {
        await bad.agent("no-room");
        await bad.farm.kubectl([
          "patch",
          "mbhost",
          "no-room",
          "--type=merge",
          "-p",
          '{"spec":{"disk":{"quota":"1Ki"}}}',
        ]);
        await served("no-room", `${origin.url}/open.gguf`, {}, {}, "no-room");
      },
      correct: () =>
        bad.farm.kubectl([
          "patch",
          "mbhost",
          "no-room",
          "--type=merge",
          "-p",
          '{"spec":{"disk":{"quota":"1Gi"}}}',
        ]),
    },
  ];
  const stranger = createServer();

  async function reasonOf({ name, kind }: Row): Promise<string | undefined> {
    if (kind === "InferenceReplica") return (await bad.replicasOf(name))[0]?.status?.reason;
    if (kind !== "Host") {
      const { status } = await bad.get(kind === "Model" ? MODELS : INFERENCE_SERVICES, name);
      return status?.reason;
    }
    const { status } = await bad.get(HOSTS, name);
    return status?.conditions?.find(({ type }: { type: string }) => type === "Ready")?.reason;
  }

  async function isWell({ name, kind }: Row): Promise<boolean> {
    const found = await bad.get({ Model: MODELS, Host: HOSTS }[kind as string] ?? INFERENCE_SERVICES, name);
    const ready = found.status?.conditions?.find(({ type }: { type: string }) => type === "Ready");
    return kind === "Host" ? ready?.status === "True" : found.status?.phase === "Ready";
  }

  it("follows each correction within seconds", async () => {
    const all = rows();
    await Promise.all(
      all.map(async (row) => {
        await row.break();
        await vi.waitFor(async () => expect(await reasonOf(row), row.name).toBe(row.reason), {
          timeout: 2 * MINUTE,
          interval: 250,
        });
      }),
    );
    const late: string[] = [];
    for (const row of all) {
      await row.correct();
      const isOther = async () => expect(await reasonOf(row)).not.toBe(row.reason);
      await vi.waitFor(isOther, { timeout: SHOWN_MS, interval: 100 }).catch(() => late.push(row.name));
    }
    expect(late).toEqual([]);
    const untilWell = async (row: Row) => expect(await isWell(row), row.name).toBe(true);
    await Promise.all(all.map((row) => vi.waitFor(() => untilWell(row), { timeout: MINUTE, interval: 250 })));
  });
});
