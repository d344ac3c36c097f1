import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { startReflector } from "../src/kube/watch/reflector.ts";
import { quietLog } from "../test/cluster/quiet-log.ts";
import { type Bench, inferenceService, startBench } from "../test/controller/bench.ts";

const WAIT = { timeout: 60_000, interval: 50 };
let bench: Bench;
beforeEach(async () => {
  bench = await startBench();
});
afterEach(() => bench?.[Symbol.asyncDispose]());

async function namespace(name: string): Promise<string> {
  await bench.cluster.kubectl(["create", "namespace", name]);
  await bench.model(name, "twenty", { gib: 20 });
  await bench.model(name, "forty", { gib: 40 });
  return name;
}

const ready = ({ status }: { status?: { phase?: string | undefined } | undefined }) =>
  expect(status?.phase).toBe("Ready");

test("a higher priority preempts a lower one, which is drained first and names the service that preempted it", async () => {
  await bench.agent("mac-1");
  const ns = await namespace("taken");
  await bench.apply(inferenceService(ns, "batch", { modelRef: "twenty", priority: "batch" }));
  await bench.apply(inferenceService(ns, "low", { modelRef: "twenty", priority: "low" }));
  for (const name of ["batch", "low"]) await bench.serviceUntil(ns, name, ready);
  const seen = watchReplicas(ns);
  await vi.waitFor(() => expect([...seen.states.keys()].sort()).toEqual(["batch", "low"]), WAIT);
  await bench.apply(inferenceService(ns, "urgent", { modelRef: "forty", priority: "high" }));
  await bench.serviceUntil(ns, "urgent", ready);

  // Forty fit beside neither and beside one of them only where the other is gone: 64 - 40 leaves room for
  // one.
  const batch = await bench.serviceUntil(ns, "batch", ({ status }) =>
    expect(status).toMatchObject({ phase: "WaitingForCapacity", reason: "Preempted", queuePosition: 1 }),
  );
  expect(batch.status?.message).toContain(`preempted on mac-1 by ${ns}/urgent, which has a higher priority`);
  expect(batch.status?.placement?.preempted).toEqual([{ slot: 0, by: `${ns}/urgent`, host: "mac-1" }]);
  await bench.serviceUntil(ns, "low", ready);
  const states = seen.stop();
  expect(states.get("batch")).toEqual(["running", "draining: Preempted", "deleting"]);
  expect(states.get("low")).toEqual(["running"]);

  await bench.cluster.kubectl(["delete", "isvc", "urgent", "-n", ns]);
  const back = await bench.serviceUntil(ns, "batch", ready);
  expect(back.status?.placement).not.toHaveProperty("preempted");
});

test("a service that does not allow preemption is not preempted", async () => {
  await bench.agent("mac-1");
  const ns = await namespace("kept");
  const placement = { allowEviction: false };
  await bench.apply(inferenceService(ns, "kept", { modelRef: "forty", priority: "batch", placement }));
  await bench.serviceUntil(ns, "kept", ready);
  await bench.apply(inferenceService(ns, "urgent", { modelRef: "forty", priority: "critical" }));
  const urgent = await bench.serviceUntil(ns, "urgent", ({ status }) =>
    expect(status).toMatchObject({ phase: "WaitingForCapacity", reason: "NoHostWithMemory" }),
  );
  expect(urgent.status?.placement?.misses?.[0]?.message).toMatch(/^needs 41\.\d GiB, 2\d.*of 64 GiB left$/);
  await bench.serviceUntil(ns, "kept", ready);

  // Its owner changes his mind, and that is enough.
  await bench.apply(inferenceService(ns, "kept", { modelRef: "forty", priority: "batch" }));
  await bench.serviceUntil(ns, "urgent", ready);
});

test("a preempted service goes elsewhere where there is room, and a controller that restarts finishes what was begun", async () => {
  await bench.agent("mac-1");
  const ns = await namespace("moved");
  await bench.apply(inferenceService(ns, "low", { modelRef: "forty", priority: "low" }));
  await bench.serviceUntil(ns, "low", ready);
  await bench.agent("mac-2", { address: "192.168.7.21", budgetGib: 50 });
  const placement = { hosts: ["mac-1"] };
  const seen = watchReplicas(ns);
  await vi.waitFor(() => expect(seen.states.get("low")).toEqual(["running"]), WAIT);
  await bench.apply(inferenceService(ns, "urgent", { modelRef: "forty", priority: "high", placement }));
  // A poll could miss what lasts for a moment.
  await vi.waitFor(() => expect(seen.states.get("low")?.length).toBeGreaterThan(1), WAIT);
  seen.stop();
  await bench.restartController();
  await bench.serviceUntil(ns, "urgent", ready);
  await bench.serviceUntil(ns, "low", ready);
  const hosts = Object.fromEntries(
    (await bench.replicas(ns)).map(({ spec }) => [spec.template.serviceName, spec.template.hostName]),
  );
  expect(hosts).toEqual({ low: "mac-2", urgent: "mac-1" });
});

/** The states of each service's replicas, as a watch shows them. */
function watchReplicas(ns: string): { states: Map<string, string[]>; stop: () => Map<string, string[]> } {
  const stop = new AbortController();
  const states = new Map<string, string[]>();
  startReflector<InferenceReplica>({
    connection: bench.connection,
    clock: systemClock,
    log: quietLog,
    signal: stop.signal,
    kind: INFERENCE_REPLICAS,
    namespace: ns,
    onChange: (_, replica) => {
      if (replica === undefined) return;
      const { serviceName } = replica.spec.template;
      const so = states.get(serviceName) ?? [];
      if (so.at(-1) !== stateOf(replica)) so.push(stateOf(replica));
      states.set(serviceName, so);
    },
  });
  return {
    states,
    stop: () => {
      stop.abort();
      return states;
    },
  };
}

function stateOf({ metadata, spec }: InferenceReplica): string {
  if (metadata.deletionTimestamp !== undefined) return "deleting";
  return spec.drain === undefined ? "running" : `draining: ${spec.drain.reason}`;
}
