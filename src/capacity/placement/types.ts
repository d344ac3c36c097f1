/** What placement reads and what it answers: plain data, so that a plan can be written down and compared. */

import type { ErrorCode } from "../../api/errors.ts";
import type { Accelerator } from "../../api/fields/hardware.ts";
import type { LabelSelector } from "../../api/fields/kubernetes.ts";
import type { HostCompute } from "../../api/host.ts";
import type { HostBudget } from "./budget.ts";

/** What a condition of a host says; absent counts as Unknown. */
export interface ReportedCondition {
  readonly status: "True" | "False" | "Unknown";
  readonly message?: string;
}

export interface StoredWeights {
  readonly source: string;
  readonly sha256?: string;
}

/** Weights on a host, with what is known of them there. */
export interface HostWeights extends StoredWeights {
  /** As last measured on this host; absent if never measured. */
  readonly tokensPerSecond?: number;
}

/** One host as the placement sees it. */
export interface HostFacts {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly ready: ReportedCondition;
  readonly reachable: ReportedCondition;
  /** Only registered: no agent has joined as this host yet. */
  readonly isAwaited?: boolean;
  readonly isLost: boolean;
  readonly cordon?: "unschedulable" | "drain";
  /** Names of the conditions of pressure that hold: no new engine starts there. */
  readonly pressures: readonly string[];
  /** The host is flapping: why, and until when no new replicas are placed on it. */
  readonly flapping?: string;
  /** What its engines compute on; decides which estimate of the claim holds. */
  readonly accelerator?: Accelerator;
  /** What the host has measured of compute buffers: wins over the accelerator's estimate. */
  readonly compute?: HostCompute | undefined;
  readonly runtimes: readonly string[];
  /** Why an engine that is there cannot be used, or how to get one. */
  readonly runtimeTrouble?: string;
  readonly budget: HostBudget;
  /** Installed memory, where the host has reported it. */
  readonly totalBytes?: number;
  readonly models: readonly HostWeights[];
}

/** Memory that is spoken for on a host: a replica in any phase, also draining, or a create that is not confirmed yet. */
export interface HostClaim {
  readonly replica: string;
  readonly service: string;
  readonly host: string;
  readonly bytes: number;
  /** Absent: it may not be preempted. */
  readonly eviction?: {
    readonly priority: number;
    /** A higher class that its service earned by waiting, for a while. */
    readonly earned?: { readonly priority: number; readonly untilMs: number };
  };
  /** It is on its way out; its bytes count until it is gone. */
  readonly leaving?: {
    /** The slot that preempts it, as in {@link slotKey}. */
    readonly for?: string;
  };
}

export interface HostRefusal {
  readonly host: string;
  readonly atMs: number;
  readonly message: string;
}

export interface HostChoice {
  /** Empty means any host. */
  readonly hosts: readonly string[];
  readonly hostSelector?: LabelSelector | undefined;
  readonly spread: "Preferred" | "Required" | "None";
}

export interface Predecessor {
  /** `namespace/name`, as in claims. */
  readonly replica: string;
  readonly host: string;
  /** It runs from the same source, so its host has the weights, whether or not the host lists them. */
  readonly sharesWeights: boolean;
}

/** Unknown means that only the host can read the model's size (a file on its disk): its agent decides on admission. */
export type MemoryNeed =
  | {
      readonly known: true;
      readonly bytes: number;
      /** Where the claim differs by what a host computes on. */
      readonly on?: Readonly<Partial<Record<Accelerator, number>>>;
      /** Compute buffers as laid out, one for each model that the engine loads, and all other bytes. */
      readonly measurable?: { readonly buffers: readonly number[]; readonly otherBytes: number };
    }
  | { readonly known: false };

/** One slot of a service that wants a host. */
export interface Demand {
  /** `namespace/name` of the service. */
  readonly service: string;
  readonly ordinal: number;
  readonly priority: number;
  /** Creation of the service, seconds or milliseconds since the epoch: only compared. */
  readonly since: number;
  /** When it was queued, on the clock of the plan's `now`. Absent: now. */
  readonly waitingSinceMs?: number;
  /** May it preempt lower priorities? Not if something of its slot serves already. */
  readonly mayPreempt?: boolean;
  /** It ran and was preempted: by what, and where. */
  readonly preempted?: { readonly by: string; readonly host: string };
  /** The most that its Model allows it to claim on a host. */
  readonly limit?:
    | { readonly of: "bytes"; readonly bytes: number }
    | { readonly of: "fraction"; readonly fraction: number };
  /** What a host must have, as its `status.runtimes` names it. */
  readonly runtime: string;
  readonly memory: MemoryNeed;
  readonly weights: StoredWeights;
  /** Replicas of the same slot, which end when the new one serves: no siblings of it. */
  readonly predecessors: readonly Predecessor[];
  readonly choice: HostChoice;
  readonly refusals: readonly HostRefusal[];
}

export interface PlacementInput {
  readonly hosts: readonly HostFacts[];
  readonly claims: readonly HostClaim[];
  readonly demands: readonly Demand[];
}

/** Why one host cannot take a demand. */
export interface PlacementMiss {
  readonly host: string;
  readonly code: ErrorCode;
  readonly message: string;
  /** Bytes of memory that were missing, where that was the reason. */
  readonly shortBytes?: number;
}

export interface Placed {
  readonly service: string;
  readonly ordinal: number;
  readonly host: string;
  readonly score: number;
  readonly why: string;
  /** The class that it had reached by waiting, where that is above its own. */
  readonly earned?: number;
}

/** A replica to preempt. */
export interface Preemption {
  /** `namespace/name` of the replica. */
  readonly replica: string;
  /** `namespace/name` of its service. */
  readonly service: string;
  readonly host: string;
  /** The slot that takes its place, as in {@link slotKey}. */
  readonly for: string;
}

export interface Unplaced {
  readonly service: string;
  readonly ordinal: number;
  readonly code: ErrorCode;
  readonly message: string;
  /** 1 is next, over all services that wait: by priority, then age. */
  readonly queuePosition: number;
  readonly waitingFor: string;
  /** At most ten, the nearest first. */
  readonly misses: readonly PlacementMiss[];
  readonly counts: Readonly<Record<string, number>>;
}

export interface PlacementPlan {
  readonly placed: readonly Placed[];
  readonly waiting: readonly Unplaced[];
  readonly preemptions: readonly Preemption[];
  /** When time alone changes the answer: a refusal ends, waiting raises a class, a hold begins or ends. */
  readonly recheckAfterMs?: number;
}

/** What of a host decides the size of a claim there. */
export type Backend = { readonly [K in "accelerator" | "compute"]?: HostFacts[K] | undefined };

/** A compute buffer by a host's coefficients, in whole bytes. */
export function measuredBytes({ factor, extraBytes }: HostCompute, laidOutBytes: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(factor * laidOutBytes + extraBytes));
}

/** What a slot claims on a host; 0 where only the host can tell. */
export function needBytes({ memory }: Pick<Demand, "memory">, { accelerator, compute }: Backend): number {
  if (!memory.known) return 0;
  if (compute !== undefined && memory.measurable !== undefined) {
    const { buffers, otherBytes } = memory.measurable;
    return buffers.reduce((sum, bytes) => sum + measuredBytes(compute, bytes), otherBytes);
  }
  return (accelerator === undefined ? undefined : memory.on?.[accelerator]) ?? memory.bytes;
}

/** One slot of one service, as a key. */
export function slotKey({ service, ordinal }: Pick<Demand, "service" | "ordinal">): string {
  return `${service}/${ordinal}`;
}

/** The service of a slot's key. */
export function serviceOfSlot(key: string): string {
  return key.slice(0, key.lastIndexOf("/"));
}
