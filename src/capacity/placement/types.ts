/** Input and output of placement as plain data, which tests can store and compare. */

import type { ErrorCode } from "../../api/errors.ts";
import type { Accelerator } from "../../api/fields/hardware.ts";
import type { LabelSelector } from "../../api/fields/kubernetes.ts";
import type { HostCompute } from "../../api/host.ts";
import type { HostBudget } from "./budget.ts";

/** A condition of a host; an absent condition counts as Unknown. */
export interface ReportedCondition {
  readonly status: "True" | "False" | "Unknown";
  readonly message?: string;
}

export interface StoredWeights {
  readonly source: string;
  readonly sha256?: string;
}

/** Weights on the disk of a host. */
export interface HostWeights extends StoredWeights {
  /** Live rate on this host; absent if there is none. */
  readonly tokensPerSecond?: number;
}

/** Facts about a host for placement. */
export interface HostFacts {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly ready: ReportedCondition;
  readonly reachable: ReportedCondition;
  /** True if the host is registered but no agent has joined yet. */
  readonly isAwaited?: boolean;
  readonly isLost: boolean;
  readonly cordon?: "unschedulable" | "drain";
  /** Pressure conditions that are true: no new engine starts on the host. */
  readonly pressures: readonly string[];
  /** Message of the condition Flapping if it is true. */
  readonly flapping?: string;
  /** Accelerator of the engines, which determines the estimate of the claim. */
  readonly accelerator?: Accelerator;
  /** Measured coefficients for compute buffers, which override the estimate of the accelerator. */
  readonly compute?: HostCompute | undefined;
  readonly runtimes: readonly string[];
  /** Programs of the BackendRuntimes that the host allows, by their entry in `runtimes`. */
  readonly backends?: readonly { readonly entry: string; readonly path: string | undefined }[];
  /** Reason why an installed engine cannot be used, or how to install one. */
  readonly runtimeProblem?: string;
  readonly budget: HostBudget;
  /** Installed memory, if the host has reported it. */
  readonly totalBytes?: number;
  readonly models: readonly HostWeights[];
  /** Class of the machine, whose members run a model equally fast; absent if too little is known. */
  readonly deviceClass?: string | undefined;
  /** Relative cost, in the unit of all machines. */
  readonly cost?: number | undefined;
  /** False if the host has no certificate with which it could serve sealed replicas. */
  readonly canSeal?: boolean;
}

/** Claimed memory on a host: of a replica in any phase, including draining, or of an assigned slot without a replica yet. */
export interface HostClaim {
  readonly replica: string;
  readonly service: string;
  readonly host: string;
  readonly bytes: number;
  /** Absent if the replica must not be preempted. */
  readonly eviction?: {
    readonly priority: number;
    /** Set if services that take turns may preempt the replica: the priority that their slots must exceed. */
    readonly turn?: number | undefined;
    /** The priority raised by aging (time in the queue), with its expiry. */
    readonly earned?: { readonly priority: number; readonly untilMs: number };
  };
  /** Set if the replica is being stopped. Its bytes count until it is deleted. */
  readonly leaving?: {
    /** Key of the slot that preempts the replica, see {@link slotKey}. */
    readonly for?: string;
  };
  /** Requests in flight and slots of the replica; absent if its engine does not report them. */
  readonly load?: { readonly requests: number; readonly slots: number } | undefined;
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
  /** `namespace/name`, the same as in claims. */
  readonly replica: string;
  readonly host: string;
  /** The replica has the same source, so its host has the weights even if the host does not list them. */
  readonly sharesWeights: boolean;
}

/** Unknown if only the host can read the size of the model (a file on its disk): its agent decides on admission. */
export type MemoryNeed =
  | {
      readonly known: true;
      readonly bytes: number;
      /** Claims by accelerator of the host. */
      readonly on?: Readonly<Partial<Record<Accelerator, number>>>;
      /** Estimated compute buffers, one for each model that the engine loads, to which measured coefficients apply; and all other bytes. */
      readonly measurable?: { readonly buffers: readonly number[]; readonly otherBytes: number };
    }
  | { readonly known: false };

/** A slot of a service that needs a host. */
export interface Demand {
  /** `namespace/name` of the service. */
  readonly service: string;
  readonly ordinal: number;
  readonly priority: number;
  /** Creation time of the service, or the time at which it was woken, which is only compared. */
  readonly since: number;
  /** Time at which the slot was queued, on the clock of `now`. Defaults to now. */
  readonly waitingSinceMs?: number;
  /** True if the slot may preempt lower priorities; false if a replica of the slot already serves. */
  readonly mayPreempt?: boolean;
  /** True if the replica is sealed. */
  readonly isSealed?: boolean | undefined;
  /** True if requests wait for an idle service, which takes turns with others that have spec.idle. */
  readonly takesTurns?: boolean;
  /** Set if a replica of the slot was preempted: by what, and on which host. */
  readonly preempted?: { readonly by: string; readonly host: string };
  /** Maximum claim on a host according to the Model. */
  readonly limit?:
    | { readonly of: "bytes"; readonly bytes: number }
    | { readonly of: "fraction"; readonly fraction: number };
  /** Required entry in `status.runtimes` of the host. */
  readonly runtime: string;
  /** Absolute path of the program that a BackendRuntime names: a host must allow this path. */
  readonly programPath?: string | undefined;
  /** Command that installs the program of the BackendRuntime, for messages. */
  readonly install?: string | undefined;
  readonly memory: MemoryNeed;
  readonly weights: StoredWeights;
  /** Measured tokens per second with this model, by device class. */
  readonly speeds: Readonly<Record<string, number>>;
  /** Replicas of the same slot, which stop once the new one serves, so they do not count as siblings. */
  readonly predecessors: readonly Predecessor[];
  /** Hosts from which the replicas of an idle service were unloaded. */
  readonly lastHosts?: readonly string[] | undefined;
  readonly choice: HostChoice;
  readonly refusals: readonly HostRefusal[];
}

/** The reason why a host cannot run a slot. */
export interface PlacementMiss {
  readonly host: string;
  readonly code: ErrorCode;
  readonly message: string;
  /** Missing memory in bytes, if that was the reason. */
  readonly shortBytes?: number;
}

export interface Placed {
  readonly service: string;
  readonly ordinal: number;
  readonly host: string;
  readonly score: number;
  readonly why: string;
  /** The priority that the slot reached by aging (time in the queue), if it is above its own. */
  readonly earned?: number;
}

/** A replica to preempt. */
export interface Preemption {
  /** `namespace/name` of the replica. */
  readonly replica: string;
  /** `namespace/name` of its service. */
  readonly service: string;
  readonly host: string;
  /** Key of the preempting slot, see {@link slotKey}. */
  readonly for: string;
}

export interface Unplaced {
  readonly service: string;
  readonly ordinal: number;
  readonly code: ErrorCode;
  readonly message: string;
  /** Position among all pending services, by priority, then age. 1 is next. */
  readonly queuePosition: number;
  readonly waitingFor: string;
  /** The closest misses, at most ten, the closest first. */
  readonly misses: readonly PlacementMiss[];
  readonly counts: Readonly<Record<string, number>>;
}

/** Facts about a host that determine the size of a claim. */
export type ClaimHost = { readonly [K in "accelerator" | "compute"]?: HostFacts[K] | undefined };

/** Size of a compute buffer according to a host's coefficients, in whole bytes. */
export function measuredBytes({ factor, extraBytes }: HostCompute, laidOutBytes: number): number {
  return Math.min(Number.MAX_SAFE_INTEGER, Math.ceil(factor * laidOutBytes + extraBytes));
}

/** Claim of a slot on a host; 0 if only the host can determine it. */
export function needBytes({ memory }: Pick<Demand, "memory">, { accelerator, compute }: ClaimHost): number {
  if (!memory.known) return 0;
  if (compute !== undefined && memory.measurable !== undefined) {
    const { buffers, otherBytes } = memory.measurable;
    return buffers.reduce((sum, bytes) => sum + measuredBytes(compute, bytes), otherBytes);
  }
  return (accelerator === undefined ? undefined : memory.on?.[accelerator]) ?? memory.bytes;
}

/** Key of a slot. */
export function slotKey({ service, ordinal }: Pick<Demand, "service" | "ordinal">): string {
  return `${service}/${ordinal}`;
}

/** Service in a slot key. */
export function serviceOfSlot(key: string): string {
  return key.slice(0, key.lastIndexOf("/"));
}
