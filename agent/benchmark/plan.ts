/** Decides what the agent does about the ordered benchmark: wait, download, measure, stop. Pure and total. */
import type { BenchmarkOrder, BenchmarkState } from "../../src/api/benchmark.ts";
import type { ErrorCode } from "../../src/api/errors.ts";
import type { SpeedConditions } from "../host/conditions.ts";
import type { PressureLevel } from "../pressure/governor/types.ts";

export interface BenchmarkFacts {
  readonly isEnabled: boolean;
  readonly order: BenchmarkOrder | undefined;
  readonly state: BenchmarkState | undefined;
  /** The step in progress. */
  readonly job: "inspect" | "fetch" | "run" | undefined;
  /** The replicas of this host are known. */
  readonly isSynced: boolean;
  readonly replicas: readonly {
    readonly namespace: string;
    readonly name: string;
    readonly phase: string;
    readonly pid?: number | undefined;
  }[];
  /** Sources that prefetches are downloading. */
  readonly downloads: readonly string[];
  /** Undefined before the first reading. */
  readonly memory: PressureLevel | undefined;
  /** Last time, in monotonic milliseconds, at which the host was not idle. */
  readonly busyAt: number;
  readonly now: number;
  /** How long the host must have been idle. */
  readonly idleMs: number;
  /** A download has failed and is repeated at this monotonic time. */
  readonly retry?: { readonly at: number; readonly reason: ErrorCode; readonly message: string } | undefined;
  /** Read immediately before the start; absent until then. */
  readonly inspected?: (SpeedConditions & { readonly isStored: boolean }) | undefined;
}

/** Reasons to wait are codes of the error catalog. */
export type BenchmarkDecision =
  /** Nothing is ordered: a step in progress is stopped and the state removed. */
  | { readonly do: "clear" }
  | { readonly do: "nothing" }
  /** A step in progress is stopped. Without `recheckAfterMs` a change of the host triggers the next plan. */
  | {
      readonly do: "wait";
      readonly reason: ErrorCode;
      readonly message: string;
      readonly recheckAfterMs?: number;
    }
  | { readonly do: "fail"; readonly reason: ErrorCode; readonly message: string }
  | { readonly do: "inspect" | "fetch" | "run" };

/** Replicas in other phases start, serve or stop, or will as soon as they can. */
const IDLE_PHASES = ["Failed", "Stopped"];
export const NOMINAL = "nominal";
const RECHECK_MS = 60_000;
const SOON_MS = 1_000;

export function planBenchmark(facts: BenchmarkFacts): BenchmarkDecision {
  const { isEnabled, order, state, job, retry, now, inspected } = facts;
  if (order === undefined) return { do: "clear" };
  if (state !== undefined && isAbout(state, order) && isFinished(state)) return { do: "nothing" };
  if (!isEnabled) {
    const message = "benchmark.enabled is false in the configuration of this host's agent";
    return { do: "fail", reason: "BenchmarkDisabled", message };
  }
  const busy = busyPlan(facts) ?? pressurePlan(facts);
  if (busy !== undefined) return busy;
  if (job !== undefined) return { do: "nothing" };
  if (retry !== undefined && now < retry.at) {
    const { at, reason, message } = retry;
    return { do: "wait", reason, message, recheckAfterMs: at - now };
  }
  if (inspected === undefined) return { do: "inspect" };
  const { thermal = NOMINAL, isOnBattery, isStored } = inspected;
  const wait = { do: "wait", recheckAfterMs: RECHECK_MS } as const;
  if (thermal !== NOMINAL)
    return { ...wait, reason: "ThermalThrottled", message: `the processor is ${thermal}` };
  if (isOnBattery) return { ...wait, reason: "OnBattery", message: "the host runs on its battery" };
  return { do: isStored ? "run" : "fetch" };
}

/** A result or a failure, which the same order does not repeat. */
export function isFinished({ phase }: BenchmarkState): boolean {
  return phase === "Done" || phase === "Failed";
}

/** A new build of the engine is a new order with the same key. */
export function isAbout(state: BenchmarkState, order: BenchmarkOrder): boolean {
  return state.key === order.key && state.build === order.build;
}

export function busyWith({
  replicas,
  downloads,
}: Pick<BenchmarkFacts, "replicas" | "downloads">): string | undefined {
  const replica = replicas.find(({ phase, pid }) => pid !== undefined || !IDLE_PHASES.includes(phase));
  if (replica !== undefined)
    return `replica ${replica.namespace}/${replica.name} is in phase ${replica.phase}`;
  const [source] = downloads;
  return source && `${source} is being downloaded`;
}

function busyPlan(facts: BenchmarkFacts): BenchmarkDecision | undefined {
  const { isSynced, job, busyAt, now, idleMs } = facts;
  const wait = { do: "wait", reason: "HostBusy" } as const;
  if (!isSynced)
    return { ...wait, message: "the replicas of this host are not known", recheckAfterMs: SOON_MS };
  const busy = busyWith(facts);
  if (busy !== undefined) return { ...wait, message: busy };
  const leftMs = busyAt + idleMs - now;
  if (job !== undefined || leftMs <= 0) return undefined;
  const message = `the host has been idle for less than ${idleMs / 1_000} s`;
  return { ...wait, message, recheckAfterMs: leftMs };
}

/** Pressure while the program runs is caused by it, or makes its result worthless. */
function pressurePlan({ memory, job }: BenchmarkFacts): BenchmarkDecision | undefined {
  if (memory === "Normal") return undefined;
  if (memory === undefined)
    return {
      do: "wait",
      reason: "MemoryPressure",
      message: "the memory of the host was not read yet",
      recheckAfterMs: SOON_MS,
    };
  if (job === "run")
    return {
      do: "fail",
      reason: "BenchmarkDoesNotFit",
      message: `memory pressure of the host became ${memory} during the benchmark`,
    };
  return {
    do: "wait",
    reason: "MemoryPressure",
    message: `memory pressure of the host is ${memory}`,
    recheckAfterMs: RECHECK_MS,
  };
}
