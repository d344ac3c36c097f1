/** A service on Ollama, from `kubectl apply` through kube-proxy and the gate to an answer, and back to nothing. */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { NAMESPACE } from "../bed/services.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { ollama } from "../fixtures/ollama.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const why = whyNoNodeNetwork() ?? (ollama === undefined ? "no Ollama" : undefined);
const MINUTE = 60_000;

describeUnless(why, "a service on Ollama", () => {
  let on: System;

  beforeAll(async () => {
    on = await startSystem({ agents: [{ config: { ollama: { programs: [ollama ?? ""] } } }] });
    await writeTinyGguf(path.join(on.farm.modelsDir, "chat.gguf"));
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  it("answers through the cluster's Service with its model alone, and says which fields it ignores", async () => {
    await on.services.applyService("chat", "chat.gguf", { runtime: "ollama" });
    await on.services.untilReady("chat");
    const answer = await on.services.chat("chat", { model: "chat", max_tokens: 8 });
    expect(answer.usage.completion_tokens).toBeGreaterThan(0);
    const refused = await on.services.post("chat", "/api/pull", JSON.stringify({ model: "another" }));
    expect(refused.error).toMatch(/\S+ \S+/);
    const honored = (await on.services.serviceStatus("chat")).conditions.find(
      ({ type }: { type: string }) => type === "SpecHonored",
    );
    expect(honored).toMatchObject({ status: "False", message: expect.stringContaining("extraArgs") });
  });

  it(
    "is withdrawn if the model process hangs although the server responds, and serves again",
    async () => {
      const { pid, restarts } = (await on.services.replicaOf("chat")).status;
      const log = () => on.farm.agent().log().slice(-4_000);
      // Ollama replaces a process that does not answer, and may be done before the agent has failed to reach it often enough.
      await until(async () => {
        spawnSync("pkill", ["-STOP", "-P", String(pid)]);
        expect(await on.services.sliceIsReady("chat"), log()).toBe(false);
      });
      await until(async () => {
        const { status } = await on.services.replicaOf("chat");
        expect(status).toMatchObject({ phase: "Ready", restarts: restarts + 1 });
        expect(status.lastExit?.reason).toBe("EngineHung");
      });
      expect((await on.services.chat("chat", { max_tokens: 8 })).usage.completion_tokens).toBeGreaterThan(0);
    },
    5 * MINUTE,
  );

  it("returns after its server was killed, and leaves nothing behind when it is deleted", async () => {
    const { pid, restarts } = (await on.services.replicaOf("chat")).status;
    process.kill(pid, "SIGKILL");
    await until(async () => {
      const { status } = await on.services.replicaOf("chat");
      expect(status).toMatchObject({ phase: "Ready", restarts: restarts + 1 });
      expect(status.pid).not.toBe(pid);
    });
    expect((await on.services.chat("chat", { max_tokens: 8 })).usage.completion_tokens).toBeGreaterThan(0);
    const last = (await on.services.replicaOf("chat")).status;
    await on.farm.kubectl(["delete", "isvc/chat", "-n", NAMESPACE, "--timeout=60s"], { timeoutMs: 70_000 });
    await until(() => {
      expect(readdirSync(path.join(on.farm.stateDir, "engines"))).toEqual([]);
      expect(() => process.kill(last.pid, 0)).toThrow();
    });
    // The gate closes the port on its own time.
    const gate = () => fetch(`http://${on.network.hostAddress}:${last.port}/health`);
    await until(() => expect(gate()).rejects.toThrow());
  });
});
