import { expect, test } from "vitest";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import { inferenceService } from "../test/controller/bench.ts";
import { oneOnce } from "../test/controller/once.ts";

const bench = oneOnce();

async function namespace(ns: string): Promise<string> {
  await bench().agents({ "mac-1": {} });
  await bench().namespace(ns);
  await bench().model(ns, "twenty", { gib: 20 });
  await bench().model(ns, "forty", { gib: 40 });
  return ns;
}

const status = async (ns: string, name: string) => (await bench().service(ns, name)).status;

test("a higher priority preempts a lower one, which is drained first and names the service that preempted it", async () => {
  const ns = await namespace("taken");
  await bench().apply(
    inferenceService(ns, "batch", { modelRef: "twenty", priority: "batch" }),
    inferenceService(ns, "low", { modelRef: "twenty", priority: "low" }),
  );
  for (const name of ["batch", "low"]) expect(await status(ns, name)).toMatchObject({ phase: "Ready" });
  const states = watchStates();
  await bench().apply(inferenceService(ns, "urgent", { modelRef: "forty", priority: "high" }));
  expect(await status(ns, "urgent")).toMatchObject({ phase: "Ready" });

  // Forty fit beside neither and beside one of them only where the other is gone: 64 - 40 leaves room for
  // one.
  const batch = await status(ns, "batch");
  expect(batch).toMatchObject({ phase: "WaitingForCapacity", reason: "Preempted", queuePosition: 1 });
  expect(batch?.message).toContain(`preempted on mac-1 by ${ns}/urgent, which has a higher priority`);
  expect(batch?.placement?.preempted).toEqual([{ slot: 0, by: `${ns}/urgent`, host: "mac-1" }]);
  expect(await status(ns, "low")).toMatchObject({ phase: "Ready" });
  expect(states.get("batch")).toEqual(["running", "draining: Preempted", "deleting"]);
  expect(states.get("low")).toEqual(["running"]);

  await bench().remove(ns, "isvc/urgent");
  const back = await status(ns, "batch");
  expect(back?.phase).toBe("Ready");
  expect(back?.placement).not.toHaveProperty("preempted");
});

test("a service that does not allow preemption is not preempted", async () => {
  const ns = await namespace("kept");
  const placement = { allowEviction: false };
  await bench().apply(inferenceService(ns, "kept", { modelRef: "forty", priority: "batch", placement }));
  await bench().apply(inferenceService(ns, "urgent", { modelRef: "forty", priority: "critical" }));
  const urgent = await status(ns, "urgent");
  expect(urgent).toMatchObject({ phase: "WaitingForCapacity", reason: "NoHostWithMemory" });
  expect(urgent?.placement?.misses?.[0]?.message).toMatch(/^needs 41\.\d GiB, 2\d.*of 64 GiB left$/);
  expect(await status(ns, "kept")).toMatchObject({ phase: "Ready" });

  // Its owner changes his mind, and that is enough.
  await bench().apply(inferenceService(ns, "kept", { modelRef: "forty", priority: "batch" }));
  expect(await status(ns, "urgent")).toMatchObject({ phase: "Ready" });
});

test("a preempted service goes elsewhere where there is room, and a controller that restarts finishes what was begun", async () => {
  const ns = await namespace("moved");
  await bench().apply(inferenceService(ns, "low", { modelRef: "forty", priority: "low" }));
  await bench().agents({ "mac-2": { budgetGib: 50 } });
  // Its engine takes its time to stop.
  bench().agent("mac-1").fallSilent();
  const placement = { hosts: ["mac-1"] };
  await bench().apply(inferenceService(ns, "urgent", { modelRef: "forty", priority: "high", placement }));
  expect((await bench().replicas(ns)).map(stateOf)).toContain("draining: Preempted");
  await bench().restart();
  await bench().agents({ "mac-1": {} });
  for (const name of ["urgent", "low"]) expect(await status(ns, name)).toMatchObject({ phase: "Ready" });
  const hosts = (await bench().replicas(ns)).map(({ spec: { template } }) => [
    template.serviceName,
    template.hostName,
  ]);
  expect(Object.fromEntries(hosts)).toEqual({ low: "mac-2", urgent: "mac-1" });
});

/** The states of each service's replicas, from now on. */
function watchStates(): ReadonlyMap<string, readonly string[]> {
  const states = new Map<string, string[]>();
  bench().observe(({ watches }) => {
    for (const replica of watches.replicas.list()) {
      const { serviceName } = replica.spec.template;
      const so = states.get(serviceName) ?? [];
      if (so.at(-1) !== stateOf(replica)) so.push(stateOf(replica));
      states.set(serviceName, so);
    }
  });
  return states;
}

function stateOf({ metadata, spec }: InferenceReplica): string {
  if (metadata.deletionTimestamp !== undefined) return "deleting";
  return spec.drain === undefined ? "running" : `draining: ${spec.drain.reason}`;
}
