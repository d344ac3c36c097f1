/**
 * Engines that stop with their agent: drained like any other, their status published, within a bounded time.
 */
import { expect, test } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { sharedCluster, startCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { type Bench, createBench } from "../../test/replicas/bench.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const never = new AbortController().signal;

function isAlive(pid: number | undefined): boolean {
  try {
    return pid !== undefined && process.kill(pid, 0);
  } catch {
    return false;
  }
}

/**
 * Room for a stream, and more time than a slow machine needs: the stream finishes, it never hits its
 * deadline.
 */
function withLongDrain(spec: InferenceReplica["spec"]): void {
  Object.assign(spec.template.engine, { contextSize: 8_192 });
  Object.assign(spec, { drainSeconds: 600 });
}

/**
 * A stream that has begun and finishes after `tokens` tokens; `end` resolves to whether all of it arrived.
 */
async function askForStream(bench: Bench, port: number | undefined, tokens: number) {
  const answer = await fetch(`http://${bench.address}:${port}/completion`, {
    method: "POST",
    body: JSON.stringify({ prompt: "a", n_predict: tokens, ignore_eos: true, stream: true }),
  });
  const end = answer.text().then(
    (text) => (text.includes('"stop":true') ? "whole" : "cut"),
    () => "cut",
  );
  return { end };
}

it("lets every stream finish, withdraws and stops all engines, and publishes that", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const agent = await bench.startAgent({ timings: { propagationMs: 300, goodbyeMs: 60_000 } });
  const names = ["chat-0-ga", "chat-0-gb", "chat-0-gc"];
  await Promise.all(names.map((name) => bench.createReplica(name, withLongDrain)));
  const ready = await Promise.all(names.map((name) => bench.untilPhase(name, "Ready")));
  const streams = await Promise.all(
    ready.slice(0, 2).map(({ status }) => askForStream(bench, status?.port, 500)),
  );
  await agent.runner.endEngines(never);
  expect(await Promise.all(streams.map(({ end }) => end))).toEqual(["whole", "whole"]);
  for (const { status } of ready) expect(isAlive(status?.pid)).toBe(false);
  for (const name of names) {
    const { status } = (await bench.replica(name)) ?? {};
    expect(status).toMatchObject({ phase: "Stopped", reason: "AgentStopped", restarts: 0 });
    expect(status?.lastExit).toBeUndefined();
    expect(status?.transitions?.map(({ phase }) => phase)).toEqual([
      "Starting",
      "Ready",
      "Draining",
      "Stopped",
    ]);
    const [endpoint] = (await bench.slice(name))?.endpoints ?? [];
    expect(endpoint?.conditions).toEqual({ ready: false, serving: false, terminating: true });
  }
  await agent.end();
  const next = await bench.startAgent();
  await Promise.all(names.map((name) => bench.untilPhase(name, "Ready")));
  expect(next.runner.snapshot().map(({ restarts }) => restarts)).toEqual([0, 0, 0]);
});

it("stops waiting for requests after a second request to stop", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const agent = await bench.startAgent({ timings: { propagationMs: 0 } });
  await bench.createReplica("chat-0-gd", (spec) => {
    Object.assign(spec.template.engine, { contextSize: 131_072 });
    Object.assign(spec, { drainSeconds: 3_600 });
  });
  const { status } = await bench.untilPhase("chat-0-gd", "Ready");
  const stream = await askForStream(bench, status?.port, 100_000);
  const atOnce = new AbortController();
  const ended = agent.runner.endEngines(atOnce.signal);
  await bench.untilReason("chat-0-gd", "AwaitingQuiet");
  expect(isAlive(status?.pid)).toBe(true);
  atOnce.abort();
  await ended;
  expect(isAlive(status?.pid)).toBe(false);
  expect(await stream.end).toBe("cut");
});

it("waits only briefly for an API server that does not answer, and still waits for requests", async () => {
  await using cluster = await startCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const agent = await bench.startAgent({ timings: { propagationMs: 0, goodbyeMs: 500 } });
  await bench.createReplica("chat-0-ge", withLongDrain);
  const { status } = await bench.untilPhase("chat-0-ge", "Ready");
  const stream = await askForStream(bench, status?.port, 500);
  await cluster.stopApiServer();
  await agent.runner.endEngines(never);
  expect(await stream.end).toBe("whole");
  expect(isAlive(status?.pid)).toBe(false);
  await agent.end();
  await cluster.startApiServer();
  await bench.startAgent();
  await bench.untilReplica("chat-0-ge", (found) => expect(found?.status?.pid).not.toBe(status?.pid));
  await bench.untilPhase("chat-0-ge", "Ready");
});

it("starts no engine while the agent is stopping", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const agent = await bench.startAgent();
  await agent.runner.endEngines(never);
  await bench.createReplica("chat-0-gf");
  const { status } = await bench.untilPhase("chat-0-gf", "Stopped");
  expect(status).toMatchObject({ reason: "AgentStopped" });
  expect(agent.runner.snapshot()).toMatchObject([{ phase: "Stopped" }]);
  await agent.end();
});
