/**
 * An idle model wakes on its first request, and a host that dies costs no more than the requests on it.
 * CPU: a whole system with a gateway, and clients that ask without a pause while a host dies.
 */
import path from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, service, serviceAnywhere } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { isAlive } from "../bed/signal.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { type StartedGateway, startGateway, whyNoGateway } from "./started-gateway.ts";

const MINUTE = 60_000;
const HOSTS = ["mac-1", "mac-2"];
const QUEUED = 100;

describeUnless(whyNoNodeNetwork() ?? whyNoGateway, "a gateway in front of two hosts", () => {
  let on: System;
  let gateway: StartedGateway;
  let openai: OpenAI;

  beforeAll(async () => {
    on = await startSystem({
      agents: HOSTS.map((hostName) => ({ hostName, config: { disk: { reserve: 0 } } })),
    });
    const file = path.join(on.farm.modelsDir, "tiny.gguf");
    await writeTinyGguf(file, { endless: true, layers: 2, embeddingSize: 64, contextLength: 8192 });
    const spread = { replicas: 2, parallelSlots: 4, contextSize: 4096, rollout: { drainSeconds: 5 } };
    await on.apply(
      model("sleeper", file),
      service("sleeper", "mac-1", { idle: { afterMinutes: 1, minimumResidencySeconds: 0 } }),
      model("both", file),
      serviceAnywhere("both", spread),
    );
    [gateway] = await Promise.all([
      startGateway(on.cluster.kubeconfig),
      on.services.untilReady("sleeper"),
      on.services.untilReady("both"),
    ]);
    openai = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: "none", maxRetries: 0 });
  }, 4 * MINUTE);

  afterAll(async () => {
    await gateway?.[Symbol.asyncDispose]();
    await on?.[Symbol.asyncDispose]();
  });

  const ask = (name: string, max_tokens = 4) =>
    openai.chat.completions.create({
      model: name,
      messages: [{ role: "user", content: "Hi" }],
      max_tokens,
    });

  const replicasOf = async (name: string): Promise<InferenceReplica[]> =>
    (await on.farm.objects.list(INFERENCE_REPLICAS)).filter(
      ({ spec }: InferenceReplica) => spec.template.serviceName === name,
    );

  it("loses only the requests on an engine that is killed, and none of the next ones", async () => {
    const results: { readonly at: number; readonly failed: boolean }[] = [];
    let killedAt = Number.POSITIVE_INFINITY;
    const request = async (): Promise<void> => {
      const at = performance.now();
      const failed = await ask("both", 40).then(
        () => false,
        () => true,
      );
      results.push({ at, failed });
    };
    const pid = (await replicasOf("both"))[0]?.status?.pid;
    if (pid === undefined) throw new Error("the replica has no engine");
    const client = async (): Promise<void> => {
      while (results.length < 60) {
        await request();
        if (results.length < 20 || Number.isFinite(killedAt)) continue;
        killAndWait(pid);
        killedAt = performance.now();
      }
    };
    await Promise.all(Array.from({ length: 4 }, client));
    const failures = results.filter(({ failed }) => failed);
    expect(failures.filter(({ at }) => at >= killedAt)).toEqual([]);
    // One of each client, since no client could send another one while the engine died.
    expect(failures.length).toBeLessThanOrEqual(4);
  });

  it("wakes an idle model on its first request, once for a hundred queued requests", async () => {
    await until(
      async () => {
        const { status } = await on.farm.objects.read(INFERENCE_SERVICES, "sleeper");
        expect(status?.phase).toBe("Idle");
      },
      { timeoutMs: 2 * MINUTE },
    );
    await until(async () => {
      expect(await openai.models.retrieve("sleeper")).toMatchObject({ ready: false, state: "idle" });
    });
    const answers = await Promise.all(Array.from({ length: QUEUED }, () => ask("sleeper")));
    expect(answers.every(({ usage }) => usage?.completion_tokens === 4)).toBe(true);
    const all = await replicasOf("sleeper");
    const woken = all.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    expect(woken).toHaveLength(1);
    expect(woken[0]?.status?.restarts ?? 0).toBe(0);
  });
});

/**
 * Returns when the process no longer exists. Until then its sockets take connections, and a request that was written to one
 * is never repeated: the engine may have received it. It blocks this thread, so that no client sends in between.
 */
function killAndWait(pid: number): void {
  process.kill(pid, "SIGKILL");
  const pause = new Int32Array(new SharedArrayBuffer(4));
  for (let waitedMs = 0; isAlive(pid); waitedMs += 1) {
    if (waitedMs > MINUTE) throw new Error(`process ${pid} does not exit`);
    Atomics.wait(pause, 0, 0, 1);
  }
}
