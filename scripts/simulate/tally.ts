/** Totals of a simulated day. */
import type { PassResult } from "../../src/capacity/placement/scheduler/scheduler.ts";
import type { Preemption } from "../../src/capacity/placement/types.ts";
import type { PriorityName, SimulatedService } from "./services.ts";
import type { World } from "./world.ts";

type Counted = "crashes" | "refused" | "replaced after a loss";

export interface Wait {
  readonly priority: PriorityName;
  readonly bytes: number;
  readonly ms: number;
  /** False: its owner deleted it, or the day ended, before it had all its hosts. */
  readonly isServed: boolean;
}

export interface TallySample {
  readonly atMs: number;
  readonly claimedBytes: number;
  readonly budgetBytes: number;
  readonly waiting: number;
  readonly held: number;
}

export interface SimulationTally {
  /** Times one pass; only passes after a change are kept. */
  readonly pass: (run: () => PassResult, hasChanged: boolean) => PassResult;
  readonly count: (what: Counted) => void;
  readonly filled: (service: SimulatedService, nowMs: number) => void;
  readonly departed: (service: SimulatedService, nowMs: number) => void;
  readonly preempted: (world: World, preemption: Preemption) => void;
  readonly sample: (world: World, nowMs: number) => void;
  readonly close: (world: World, nowMs: number) => void;
  /** Milliseconds: the first one is that of all services at once. */
  readonly passes: readonly number[];
  /** CPU time of the first, and of all others together. */
  readonly cpu: () => { readonly firstMs: number; readonly othersMs: number };
  readonly placements: () => number;
  readonly counts: ReadonlyMap<Counted, number>;
  readonly waits: readonly Wait[];
  /** By priority of the preempted service. */
  readonly preemptions: ReadonlyMap<PriorityName, number>;
  readonly movedBytes: () => number;
  readonly samples: readonly TallySample[];
}

/** Two clocks, which change nothing of what happens. */
export interface Measures {
  readonly elapsedMs: () => number;
  readonly cpuMs: () => number;
}

export function createSimulationTally({ elapsedMs, cpuMs }: Measures): SimulationTally {
  const passes: number[] = [];
  const counts = new Map<Counted, number>();
  const waits: Wait[] = [];
  const preemptions = new Map<PriorityName, number>();
  const samples: TallySample[] = [];
  let placements = 0;
  let movedBytes = 0;
  const cpu = { firstMs: 0, othersMs: 0 };
  const ended = (service: SimulatedService, nowMs: number, isServed: boolean) => {
    if (service.waitingSinceMs === undefined) return;
    waits.push({
      priority: service.priority,
      bytes: service.bytes,
      ms: nowMs - service.waitingSinceMs,
      isServed,
    });
  };
  return {
    passes,
    counts,
    waits,
    preemptions,
    samples,
    cpu: () => cpu,
    placements: () => placements,
    movedBytes: () => movedBytes,
    pass: (run, hasChanged) => {
      const startMs = elapsedMs();
      const startCpuMs = cpuMs();
      const result = run();
      if (hasChanged) {
        const usedMs = cpuMs() - startCpuMs;
        if (passes.length === 0) cpu.firstMs = usedMs;
        else cpu.othersMs += usedMs;
        passes.push(elapsedMs() - startMs);
      }
      placements += result.placed.length;
      return result;
    },
    count: (what) => counts.set(what, (counts.get(what) ?? 0) + 1),
    filled: (service, nowMs) => ended(service, nowMs, true),
    departed: (service, nowMs) => ended(service, nowMs, false),
    preempted: (world, { replica }) => {
      const { service } = world.replicas.get(replica) ?? {};
      if (service === undefined) return;
      preemptions.set(service.priority, (preemptions.get(service.priority) ?? 0) + 1);
      movedBytes += service.bytes;
    },
    sample: (world, atMs) => samples.push(sampleOf(world, atMs)),
    close: (world, nowMs) => {
      for (const service of world.services.values()) ended(service, nowMs, false);
    },
  };
}

/** Samples the reachable hosts. */
function sampleOf(world: World, atMs: number): TallySample {
  let budgetBytes = 0;
  let claimedBytes = 0;
  for (const { facts } of world.hosts.values()) {
    if (facts.reachable.status !== "True" || !facts.budget.known) continue;
    budgetBytes += facts.budget.bytes;
    for (const replica of world.onHost.get(facts.name) ?? [])
      claimedBytes += world.replicas.get(replica)?.claim.bytes ?? 0;
  }
  const held = world.scheduler.reservations().filter(({ why }) => why === "reserved").length;
  return { atMs, claimedBytes, budgetBytes, waiting: world.scheduler.pending().length, held };
}
