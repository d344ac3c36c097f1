/**
 * Orderly stops, with real requests in flight; and what a restarted agent does with engines that have no
 * replica.
 */
import { existsSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { FINALIZER_ENGINE } from "../../src/api/group.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { withBench } from "../../test/replicas/with-bench.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const PATIENT = { timeout: 60_000 };
const STREAM_TOKENS = 500;

function askForStream(url: string): Promise<Response> {
  return fetch(`${url}/completion`, {
    method: "POST",
    body: JSON.stringify({ prompt: "a", n_predict: STREAM_TOKENS, ignore_eos: true, stream: true }),
  });
}

it(
  "lets a streamed answer finish before the engine ends, and withdraws it first",
  withBench(async (bench) => {
    await bench.startAgent({ timings: { propagationMs: 0 } });
    await bench.createReplica("chat-0-s", (spec) => {
      Object.assign(spec.template.engine, { contextSize: 4_096 });
      // A probe that finds it frozen ends it.
      Object.assign(spec, { drainSeconds: 600, probes: { timeoutSeconds: 120 } });
    });
    const { status } = await bench.untilPhase("chat-0-s", "Ready");
    const answer = await askForStream(`http://${bench.address}:${status?.port}`);
    // Frozen until the withdrawal has been seen: on any machine the answer is still on its way then.
    process.kill(status?.pid ?? 0, "SIGSTOP");
    const order: string[] = [];
    const text = answer.text().then((whole) => {
      order.push("answered");
      return whole;
    });
    await bench.deleteReplica("chat-0-s");
    const gone = vi
      .waitFor(() => expect(() => process.kill(status?.pid ?? 0, 0)).toThrow("ESRCH"), { timeout: 280_000 })
      .then(() => order.push("ended"));
    await bench.untilAnnounced("chat-0-s", false);
    // Where the freeze came late, the answer may be whole; the engine must still be there.
    expect(order).not.toContain("ended");
    process.kill(status?.pid ?? 0, "SIGCONT");
    expect(await text).toContain('"stop":true');
    await gone;
    expect(order).toEqual(["answered", "ended"]);
  }),
  300_000,
);

it(
  "stops an engine whose requests never finish once its drain time has elapsed",
  withBench(async (bench) => {
    await bench.startAgent({ timings: { propagationMs: 0 } });
    await bench.createReplica("chat-0-t", (spec) => {
      Object.assign(spec.template.engine, { contextSize: 131_072 });
      Object.assign(spec, { drainSeconds: 1 });
    });
    const { status } = await bench.untilPhase("chat-0-t", "Ready");
    const answer = await fetch(`http://${bench.address}:${status?.port}/completion`, {
      method: "POST",
      body: JSON.stringify({ prompt: "a", n_predict: 100_000, ignore_eos: true, stream: true }),
    });
    const cut = answer.text().then(
      () => "ended",
      () => "cut",
    );
    const from = performance.now();
    await bench.deleteReplica("chat-0-t");
    await bench.untilGone("chat-0-t");
    expect(performance.now() - from).toBeGreaterThan(1_000);
    await cut;
  }),
);

it(
  "does not wait for the requests of an engine that hangs while it drains",
  withBench(async (bench) => {
    const timings = { propagationMs: 0, liveProbeMs: 200, failedProbeMs: 100 };
    await bench.startAgent({ timings });
    await bench.createReplica("chat-0-w", (spec) => {
      Object.assign(spec.template.engine, { contextSize: 131_072 });
      Object.assign(spec, { drainSeconds: 3_600, probes: { timeoutSeconds: 1 } });
    });
    const { status } = await bench.untilPhase("chat-0-w", "Ready");
    const answer = await fetch(`http://${bench.address}:${status?.port}/completion`, {
      method: "POST",
      body: JSON.stringify({ prompt: "a", n_predict: 100_000, ignore_eos: true, stream: true }),
    });
    const cut = answer.text().catch(() => "cut");
    await bench.patchSpec("chat-0-w", { drain: { reason: "HostDrain" } });
    await bench.untilReason("chat-0-w", "AwaitingQuiet");
    process.kill(status?.pid ?? 0, "SIGSTOP");
    const stopped = await bench.untilPhase("chat-0-w", "Stopped");
    const story = stopped.status?.transitions?.map(({ phase, reason }) => `${phase} ${reason}`);
    expect(story).toContain("Backoff EngineHung");
    expect(story?.at(-1)).toBe("Stopped Drained");
    expect(() => process.kill(status?.pid ?? 0, 0)).toThrow("ESRCH");
    expect(await cut).not.toContain('"stop":true');
  }),
);

it(
  "stops for spec.drain, keeps the object, and starts again when it is taken back",
  withBench(async (bench) => {
    await bench.startAgent({ timings: { propagationMs: 0 } });
    await bench.createReplica("chat-0-u");
    const before = await bench.untilPhase("chat-0-u", "Ready");
    await bench.patchSpec("chat-0-u", { drain: { reason: "HostDrain" } });
    const stopped = await bench.untilPhase("chat-0-u", "Stopped");
    expect(stopped.status).toMatchObject({ reason: "Drained", restarts: 0 });
    expect(stopped.status?.pid).toBeUndefined();
    await bench.patchSpec("chat-0-u", { drain: null });
    const after = await bench.untilPhase("chat-0-u", "Ready");
    expect(after.status).toMatchObject({ port: before.status?.port, restarts: 0 });
  }),
);

it(
  "ends an engine whose replica went while the agent was away, and forgets its files",
  withBench(async (bench) => {
    const first = await bench.startAgent();
    const { metadata } = await bench.createReplica("chat-0-v");
    const { status } = await bench.untilPhase("chat-0-v", "Ready");
    await first.end();
    await bench.deleteReplica("chat-0-v");
    const ref = { name: metadata.name, namespace: metadata.namespace };
    const freed = await bench.client.jsonPatch(INFERENCE_REPLICAS, ref, [
      { op: "test", path: "/metadata/finalizers/0", value: FINALIZER_ENGINE },
      { op: "remove", path: "/metadata/finalizers/0" },
    ]);
    expect(freed.ok).toBe(true);
    expect(() => process.kill(status?.pid ?? 0, 0)).not.toThrow();
    const second = await bench.startAgent();
    await vi.waitFor(() => expect(second.runner.snapshot()).toEqual([]), { timeout: 60_000 });
    expect(() => process.kill(status?.pid ?? 0, 0)).toThrow("ESRCH");
    expect(existsSync(`${bench.stateDir}/engines/${metadata.uid}`)).toBe(false);
    await vi.waitFor(
      () => expect(existsSync(`${bench.stateDir}/desired/${metadata.uid}.json`)).toBe(false),
      PATIENT,
    );
  }),
);
