/** The runner on a real API server with the real llama-server: start, crash, adoption, deletion. */
import { expect, test, vi } from "vitest";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { createBench } from "../../test/replicas/bench.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const PATIENT = { timeout: 60_000 };

it("starts an engine, announces it, and withdraws it immediately when it exits", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  // Long enough that the withdrawal is seen however slowly the API server answers.
  await bench.startAgent({ timings: { firstRestartMs: 5_000 } });
  await bench.createReplica("chat-0-a");
  const ready = await bench.untilPhase("chat-0-a", "Ready");
  expect(ready.status).toMatchObject({ reason: "Serving", restarts: 0, observedGeneration: 1 });
  // Read back in parallel to the announcement, which does not wait for it.
  await bench.untilReplica("chat-0-a", (found) => expect(found?.status?.contextPerSlot).toBe(512));
  const slice = await bench.slice("chat-0-a");
  expect(slice?.endpoints).toMatchObject([{ addresses: [bench.address], conditions: { ready: true } }]);
  expect(slice?.ports).toMatchObject([{ name: "http", port: ready.status?.port }]);
  const models = await fetch(`http://${bench.address}:${ready.status?.port}/v1/models`);
  expect(models.status).toBe(200);

  const pid = ready.status?.pid ?? 0;
  process.kill(pid, "SIGKILL");
  await bench.untilSlice("chat-0-a", (now) =>
    expect(now?.endpoints).toMatchObject([
      { conditions: { ready: false, serving: false, terminating: true } },
    ]),
  );
  const held = await bench.untilExit("chat-0-a", "EngineKilled");
  expect(held.status?.lastExit).toMatchObject({
    signal: "SIGKILL",
    killedByUs: false,
    reason: "EngineKilled",
  });
  const again = await bench.untilPhase("chat-0-a", "Ready");
  expect(again.status).toMatchObject({ restarts: 1, port: ready.status?.port });
  expect(again.status?.pid).not.toBe(pid);
  const story = again.status?.transitions?.map(({ phase, reason }) =>
    phase === "Starting" ? phase : `${phase} ${reason}`,
  );
  expect(story).toEqual(["Starting", "Ready Serving", "Backoff EngineKilled", "Starting", "Ready Serving"]);
  expect(again.status?.transitions?.[2]?.message).toContain("killed");
});

it("is adopted by the next agent with the same process, and stays announced", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const first = await bench.startAgent();
  await bench.createReplica("chat-0-b");
  await bench.untilPhase("chat-0-b", "Ready");
  const before = await bench.untilReplica("chat-0-b", (found) => {
    const footprintBytes = expect.any(Number);
    expect(found?.status).toMatchObject({ contextPerSlot: 512, memory: { footprintBytes } });
    return found;
  });
  const sliceBefore = await bench.slice("chat-0-b");
  await first.end();
  const second = await bench.startAgent({ timings: { firstRestartMs: 5_000 } });
  expect(second.runner.snapshot()).toMatchObject([{ pid: before?.status?.pid }]);
  await vi.waitFor(() => expect(second.runner.snapshot()).toMatchObject([{ phase: "Ready" }]), PATIENT);
  const after = await bench.replica("chat-0-b");
  expect(after?.status).toEqual(before?.status);
  expect(after?.metadata.resourceVersion).toBe(before?.metadata.resourceVersion);
  expect((await bench.slice("chat-0-b"))?.metadata.resourceVersion).toBe(
    sliceBefore?.metadata.resourceVersion,
  );

  process.kill(before?.status?.pid ?? 0, "SIGKILL");
  await bench.untilAnnounced("chat-0-b", false);
  const again = await bench.untilExit("chat-0-b", "EngineKilled");
  const story = again.status?.transitions ?? [];
  const published = before?.status?.transitions ?? [];
  expect(story.slice(0, published.length)).toEqual(published);
  expect(story[published.length]).toMatchObject({ phase: "Backoff", reason: "EngineKilled" });
});

it("drains on deletion and removes the finalizer once no process is left", async () => {
  const cluster = sharedCluster();
  await using namespace = await cluster.namespace();
  await using bench = await createBench(cluster.kubeconfig, namespace.name);
  const agent = await bench.startAgent();
  const { status } = await bench.createReplica("chat-0-c").then(() => bench.untilPhase("chat-0-c", "Ready"));
  await bench.deleteReplica("chat-0-c");
  await bench.untilPhase("chat-0-c", "Draining");
  await bench.untilGone("chat-0-c");
  expect(() => process.kill(status?.pid ?? 0, 0)).toThrow("ESRCH");
  await vi.waitFor(() => expect(agent.runner.snapshot()).toEqual([]), PATIENT);
  expect((await bench.slice("chat-0-c"))?.endpoints?.[0]?.conditions).toMatchObject({ ready: false });
});
