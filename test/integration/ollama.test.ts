/** Services on Ollama and on the replayed oMLX, from `kubectl apply` through kube-proxy and the gate to an answer, and back to nothing. */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { describeUnless } from "../bed/describe-unless.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { NAMESPACE } from "../bed/services.ts";
import { isAlive } from "../bed/signal.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { ollama } from "../fixtures/ollama.ts";
import { installOmlx } from "../fixtures/omlx/agent.ts";
import { type TemporaryFolder, temporaryFolder } from "../fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { writeTinyMlx } from "../fixtures/tiny-mlx.ts";

const MINUTE = 60_000;

describeUnless(whyNoNodeNetwork(), "engines that serve many models", () => {
  let folder: TemporaryFolder;
  let on: System;

  beforeAll(async () => {
    folder = await temporaryFolder();
    const omlx = { programs: [installOmlx(folder.path).path] };
    const config = ollama === undefined ? { omlx } : { omlx, ollama: { programs: [ollama] } };
    on = await startSystem({ agents: [{ config }] });
  });

  afterAll(async () => {
    await on?.[Symbol.asyncDispose]();
    await folder?.[Symbol.asyncDispose]();
  });

  /** The gate closes the port on its own time. */
  async function expectNothingLeft({ pid, port }: { readonly pid: number; readonly port: number }) {
    await until(() => {
      expect(readdirSync(path.join(on.farm.stateDir, "engines"))).toEqual([]);
      expect(isAlive(pid)).toBe(false);
    });
    const gate = () => fetch(`http://${on.network.hostAddress}:${port}/health`);
    await until(() => expect(gate()).rejects.toThrow(), { everyMs: 250 });
  }

  describeUnless(ollama === undefined ? "no Ollama" : undefined, "a service on Ollama", () => {
    beforeAll(async () => {
      await writeTinyGguf(path.join(on.farm.modelsDir, "chat.gguf"));
      await on.services.applyService("chat", "chat.gguf", { runtime: "ollama" });
      await on.services.untilReady("chat");
    });

    afterAll(() => on.farm.objects.remove(NAMESPACE, "isvc", "mdl"));

    it("answers through the cluster's Service with its model alone, and says which fields it ignores", async () => {
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
        await on.services.replicaUntil("chat", ({ status }) => {
          expect(status).toMatchObject({ phase: "Ready", restarts: restarts + 1 });
          expect(status.lastExit?.reason).toBe("EngineHung");
        });
        expect((await on.services.chat("chat", { max_tokens: 8 })).usage.completion_tokens).toBeGreaterThan(
          0,
        );
      },
      5 * MINUTE,
    );

    it("returns after its server was killed, and leaves nothing behind when it is deleted", async () => {
      const { pid, restarts } = (await on.services.replicaOf("chat")).status;
      process.kill(pid, "SIGKILL");
      await on.services.replicaUntil("chat", ({ status }) => {
        expect(status).toMatchObject({ phase: "Ready", restarts: restarts + 1 });
        expect(status.pid).not.toBe(pid);
      });
      expect((await on.services.chat("chat", { max_tokens: 8 })).usage.completion_tokens).toBeGreaterThan(0);
      const last = (await on.services.replicaOf("chat")).status;
      await on.farm.objects.remove(NAMESPACE, "isvc/chat");
      await expectNothingLeft(last);
    });
  });

  describe("a service on oMLX", () => {
    beforeAll(async () => {
      writeTinyMlx(path.join(on.farm.modelsDir, "mlx"));
      const read = (name: string) =>
        parse(readFileSync(new URL(`../../examples/omlx/${name}.yaml`, import.meta.url), "utf8"));
      const [model, service] = [read("model"), read("inferenceservice")];
      model.spec.source = path.join(on.farm.modelsDir, "mlx");
      service.spec.rollout = { drainSeconds: 2 };
      service.spec.jinja = true;
      await on.apply(model, service);
      await on.services.untilReady("qwen3-omlx");
    });

    afterAll(() => on.farm.objects.remove(NAMESPACE, "isvc", "mdl"));

    it("answers through the cluster's Service with its model alone, whole and as a stream", async () => {
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
      await on.services.replicaUntil("qwen3-omlx", ({ status }) => {
        expect(status).toMatchObject({ phase: "Ready", restarts: 1 });
        expect(status.pid).not.toBe(pid);
      });
      expect((await on.services.chat("qwen3-omlx", { max_tokens: 8 })).usage.completion_tokens).toBe(8);
      const last = (await on.services.replicaOf("qwen3-omlx")).status;
      await on.farm.objects.remove(NAMESPACE, "isvc/qwen3-omlx");
      await expectNothingLeft(last);
      const [server = ""] = readdirSync(path.join(on.farm.stateDir, "omlx")).filter((name) => name !== "key");
      expect(readdirSync(path.join(on.farm.stateDir, "omlx", server, "models"))).toEqual([]);
    });
  });
});
