/** What the replica runner needs from the rest of the agent. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { RecordEvent } from "../../src/kube/event/events.ts";
import type { KubeClient, ObjectRef } from "../../src/kube/types.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { EngineDriver } from "../engines/engine.ts";
import type { ProcessInstances } from "../instances/process/process-instance.ts";
import type { GovernedEngine, PressureLevel } from "../pressure/governor/types.ts";
import type { ModelStore } from "../store/types.ts";
import type { SliceState } from "./observed.ts";
import type { EngineReading, HostCounts, ReplicaCounts } from "./state/counts.ts";
import type { Timings } from "./timings.ts";

/** Where a replica's engine is reached from the cluster. */
export interface EndpointAddress {
  readonly address: string;
  readonly port: number;
}

export type EndpointResult =
  | { readonly ok: true; readonly state: SliceState }
  | { readonly ok: false; readonly message: string };

/** The replica's EndpointSlice, named like the replica; the agent fills `endpoints` and `ports` and nothing else. */
export interface Endpoints {
  /**
   * As the API server last acknowledged it, by response or watch; `wanted` distinguishes ready from stale. No
   * I/O.
   */
  readonly state: (replica: ObjectRef, desired: EndpointAddress | undefined) => SliceState;
  readonly announce: (replica: ObjectRef, endpoint: EndpointAddress) => Promise<EndpointResult>;
  readonly withdraw: (replica: ObjectRef) => Promise<EndpointResult>;
}

export interface MachineMemory {
  /** The last reading, with the monotonic time at which it began; undefined before the first. No I/O. */
  readonly latest: () => { readonly at: number; readonly availableBytes?: number } | undefined;
}

/** What the runner reads from the cluster and writes to it, once the agent has a connection. */
export interface ReplicaCluster {
  readonly client: KubeClient;
  readonly endpoints: Endpoints;
  readonly recorder: RecordEvent;
}

export interface ReplicaRunnerPorts {
  readonly stateDir: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<
    ModelStore,
    "resolve" | "fetch" | "inspect" | "hold" | "release" | "noteSpeed" | "disk"
  >;
  readonly drivers: ReadonlyMap<string, EngineDriver>;
  /** Adopts engines whose record names no runtime that this agent can drive. */
  readonly processes: ProcessInstances;
  readonly portRange: readonly [number, number];
  /** The address this host serves on now, with engines on those in use; undefined while none of its registered ones is up. */
  readonly address: (inUse: readonly string[]) => string | undefined;
  /** Whether an interface of this machine has the address; absent where that cannot be determined. */
  readonly isAddressUp?: (address: string) => boolean;
  /** Bytes all engines together may claim; unread before the first reading, undefined while it fails. */
  readonly memoryBudget: () => number | "unread" | undefined;
  /** Bytes that shared daemons take beside the claims of replicas; they count as taken. */
  readonly unclaimedBytes?: () => number;
  /** The machine's memory; absent: the budget alone decides. */
  readonly memory?: MachineMemory;
  /** The governor's judgement of the machine's memory; undefined before its first reading. */
  readonly memoryLevel?: () => PressureLevel | undefined;
  /** Whether the governor lets this replica start now. */
  readonly mayStart?: (uid: string) => StartPermission;
  readonly timings?: Partial<Timings>;
  /** In 0..1, for jitter. */
  readonly random?: () => number;
}

export type StartPermission = { readonly at: "yes" } | { readonly at: "held"; readonly because: string };

/** One line of the runner's state, for metrics, health checks and the Host's status. */
export interface ReplicaSnapshot {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  readonly service: string;
  readonly phase: string;
  readonly reason: string;
  readonly claimBytes: number;
  readonly restarts: number;
  /** Unexpected exits, by code; kept across restarts of the agent. */
  readonly exits: Readonly<Record<string, number>>;
  readonly counts: ReplicaCounts;
  readonly runtime: string;
  readonly revision: string;
  /** What its process actually uses, as last measured. */
  readonly footprintBytes?: number;
  /** Of the run that is there now, on the wall clock. */
  readonly startedAtMs?: number;
  readonly readyAtMs?: number;
  readonly port?: number;
  readonly pid?: number;
  /** While its weights are fetched. */
  readonly download?: DownloadReading;
}

export interface DownloadReading {
  readonly bytes: number;
  /** Absent while the server has not said. */
  readonly totalBytes?: number;
  /** Absent before it was first measured. */
  readonly bytesPerSecond?: number;
}

export interface ReplicaRunner {
  /** Reads what is on disk and adopts every engine that is still running. Before anything else. */
  readonly adopt: () => Promise<void>;
  /** Until then no slice is known, no Secret can be read, and nothing is written. */
  readonly connect: (cluster: ReplicaCluster) => void;
  /** What the watch shows: the replica, or undefined once the API server has none of this uid any more. */
  readonly setDesired: (uid: string, replica: InferenceReplica | undefined) => void;
  /** A list succeeded: it overrides what was known, engines of all other uids are unwanted, and endpoints may be announced. */
  readonly listed: (replicas: readonly InferenceReplica[]) => void;
  readonly enqueue: (uid: string) => void;
  /** Metadata key of the replica: `namespace/name`. */
  readonly sliceChanged: (key: string) => void;
  /** Everything may have changed: an address, the budget, the wake from sleep. */
  readonly enqueueAll: () => void;
  /** After a sleep: every engine is probed at once, and nothing is announced before the next list. */
  readonly wake: (pause: { readonly countedMs: number }) => void;
  readonly snapshot: () => readonly ReplicaSnapshot[];
  /** What the last agent ran for each replica is adopted, or is known to be gone. */
  readonly knowsAllEngines: () => boolean;
  /** Every replica was inspected once, so the weights on disk that any of them may need are held. */
  readonly hasInspectedAll: () => boolean;
  /** What was counted since the agent's start. */
  readonly counts: () => HostCounts;
  /** Reads the gauges of all serving engines, each with a timeout of `timeoutMs`. */
  readonly readEngines: (timeoutMs: number) => Promise<readonly EngineReading[]>;
  /** The engines as the pressure governor sees them, and when the OS last killed one. */
  readonly governed: () => {
    readonly engines: readonly GovernedEngine[];
    readonly killedAt: number | undefined;
  };
  /** Stops it, to free its memory, until it is readmitted. Kept on disk. */
  readonly evict: (uid: string, how: "evict" | "unload", because: string) => void;
  /** The machine's memory was read: replicas that wait for some are planned again. */
  readonly memoryRead: () => void;
  /** Stored content was found damaged: replicas that use it say so, and fetch it again before their next start. */
  readonly weightsDamaged: (sha256: string, note: string) => void;
  /** Lets it start again after an eviction. */
  readonly readmit: (uid: string) => void;
  /** What this host's running engines listen on. No I/O: every pass asks. */
  readonly addressesInUse: () => readonly string[];
  /** Bytes reserved by all replicas together. */
  readonly claimedBytes: () => number;
  /** Instead of `adopt`, for a dry run: takes note of these and of what runs. Nothing is written, started or signalled. */
  readonly inspect: (replicas: readonly InferenceReplica[]) => Promise<void>;
  /** What would be done now, as text. */
  readonly describePlans: () => Promise<string>;
  /**
   * Drains and stops every engine. Resolves when all are gone and that was published, or could not be in
   * time.
   */
  readonly endEngines: (atOnce: AbortSignal) => Promise<void>;
  /** Stops supervision; the engines keep running. */
  readonly stop: () => Promise<void>;
}
