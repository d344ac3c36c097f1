/** A service on the replayed oMLX, from `kubectl apply` through kube-proxy and the gate to an answer, and back to nothing. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { parse } from "yaml";
import { describeUnless } from "../bed/describe-unless.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { NAMESPACE } from "../bed/services.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { installOmlx } from "../fixtures/omlx/agent.ts";
import { type TemporaryFolder, temporaryFolder } from "../fixtures/temporary-folder.ts";
import { writeTinyMlx } from "../fixtures/tiny-mlx.ts";

describeUnless(whyNoNodeNetwork(), "a service on oMLX", () => {
  let folder: TemporaryFolder;
  let on: System;

  beforeAll(async () => {
    folder = await temporaryFolder();
    const { path: program } = installOmlx(folder.path);
    on = await startSystem({ agents: [{ config: { omlx: { programs: [program] } } }] });
    writeTinyMlx(path.join(on.farm.modelsDir, "mlx"));
  });

  afterAll(async () => {
    await on?.[Symbol.asyncDispose]();
    await folder?.[Symbol.asyncDispose]();
  });

  it("answers through the cluster's Service with its model alone, whole and as a stream", async () => {
    const read = (name: string) =>
      parse(readFileSync(new URL(`../../examples/omlx/${name}.yaml`, import.meta.url), "utf8"));
    const [model, service] = [read("model"), read("inferenceservice")];
    model.spec.source = path.join(on.farm.modelsDir, "mlx");
    service.spec.rollout = { drainSeconds: 2 };
    service.spec.jinja = true;
    await on.apply(model, service);
    await on.services.untilReady("qwen3-omlx");
    const answer = await on.services.chat("qwen3-omlx", { model: "qwen3-omlx", max_tokens: 8 });
    expect(answer.usage.completion_tokens).toBe(8);
    expect(await on.services.ask("qwen3-omlx", { stream: true, max_tokens: 8 })).toBeUndefined();
    const refused = await on.services.post("qwen3-omlx", "/admin/api/reload", "{}");
    expect(refused.error.message).toMatch(/manages models/);
    const { conditions } = await on.services.serviceStatus("qwen3-omlx");
    expect(conditions.find(({ type }: { type: string }) => type === "SpecHonored")).toMatchObject({
      status: "False",
      message: expect.stringMatching(/spec\.jinja(?!.*turboQuantBits)/),
    });
    const { status } = await on.services.replicaOf("qwen3-omlx");
    expect(status.contextPerSlot ?? 8192).toBe(8192);
  });

  it("returns after its server was killed, and leaves nothing behind when it is deleted", async () => {
    const { pid } = (await on.services.replicaOf("qwen3-omlx")).status;
    process.kill(pid, "SIGKILL");
    await until(async () => {
      const { status } = await on.services.replicaOf("qwen3-omlx");
      expect(status).toMatchObject({ phase: "Ready", restarts: 1 });
      expect(status.pid).not.toBe(pid);
    });
    expect((await on.services.chat("qwen3-omlx", { max_tokens: 8 })).usage.completion_tokens).toBe(8);
    const last = (await on.services.replicaOf("qwen3-omlx")).status;
    await on.farm.kubectl(["delete", "isvc/qwen3-omlx", "-n", NAMESPACE, "--timeout=60s"], {
      timeoutMs: 70_000,
    });
    await until(() => {
      expect(readdirSync(path.join(on.farm.stateDir, "engines"))).toEqual([]);
      expect(() => process.kill(last.pid, 0)).toThrow();
    });
    const [server = ""] = readdirSync(path.join(on.farm.stateDir, "omlx")).filter((name) => name !== "key");
    expect(readdirSync(path.join(on.farm.stateDir, "omlx", server, "models"))).toEqual([]);
    // The gate closes the port on its own time.
    const gate = () => fetch(`http://${on.network.hostAddress}:${last.port}/health`);
    await until(() => expect(gate()).rejects.toThrow());
  });
});
