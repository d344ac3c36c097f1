/** Interfaces between the replica runner and the rest of the agent. */
import type { Performance } from "../../../src/api/fields/performance.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { RecordEvent } from "../../../src/kube/event/events.ts";
import type { KubeClient, ObjectRef } from "../../../src/kube/types.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";
import type { EngineDriver } from "../../engines/driver/engine.ts";
import type { ProcessInstances } from "../../instances/process/process-instance.ts";
import type { GovernedEngine, PressureLevel } from "../../pressure/governor/types.ts";
import type { ModelStore } from "../../store/types.ts";
import type { TransportIdentity } from "../../transport/host-transport.ts";
import type { SliceState } from "../evidence/observed.ts";
import type { Timings } from "../evidence/timings.ts";
import type { EngineReading, HostCounts, ReplicaCounts } from "../state/counts.ts";

/** Address at which the cluster reaches a replica's engine. */
export interface EndpointAddress {
  readonly address: string;
  readonly port: number;
}

export type EndpointResult =
  | { readonly ok: true; readonly state: SliceState }
  | { readonly ok: false; readonly message: string };

export interface Announcement extends EndpointAddress {
  /** True if the slice must name this host's certificate, by which gateways recognize it and use TLS. */
  readonly isSealed?: boolean;
}

/** The replica's EndpointSlice, named like the replica; the agent fills `endpoints` and `ports` and nothing else. */
export interface Endpoints {
  /** The slice's state that the API server last acknowledged, by response or watch; ready means that it holds `desired`. No I/O. */
  readonly state: (replica: ObjectRef, desired: EndpointAddress | undefined) => SliceState;
  readonly announce: (replica: ObjectRef, endpoint: Announcement) => Promise<EndpointResult>;
  readonly withdraw: (replica: ObjectRef) => Promise<EndpointResult>;
}

export interface MachineMemory {
  /** The last reading, and the monotonic time at which it began; undefined before the first reading. No I/O. */
  readonly latest: () => { readonly at: number; readonly availableBytes?: number } | undefined;
}

/** The runner's access to the cluster, once the agent has a connection. */
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
  /** The certificate of sealed replicas. */
  readonly transport: Pick<TransportIdentity, "file">;
  /** Adopts engines whose record names no runtime that this agent supports. */
  readonly processes: ProcessInstances;
  readonly portRange: readonly [number, number];
  /** The address that this host serves on now; engines listen on those in use. Undefined while no registered address is up. */
  readonly address: (inUse: readonly string[]) => string | undefined;
  /** True if an interface of this machine has the address; absent if that cannot be determined. */
  readonly isAddressUp?: (address: string) => boolean;
  /** Maximum sum of all claims, in bytes; unread before the first reading, undefined while readings fail. */
  readonly memoryBudget: () => number | "unread" | undefined;
  /** Bytes that shared daemons use in addition to the claims of replicas. */
  readonly unclaimedBytes?: () => number;
  /** The machine's memory. If absent, only the budget limits starts. */
  readonly memory?: MachineMemory;
  /** The governor's pressure level; undefined before its first reading. */
  readonly memoryLevel?: () => PressureLevel | undefined;
  /** The governor's permission for this replica to start now. */
  readonly mayStart?: (uid: string) => StartPermission;
  readonly timings?: Partial<Timings>;
  /** Random number in 0..1, for jitter. */
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
  /** Source of the model; empty until the replica is known. */
  readonly model: string;
  readonly revision: string;
  /** Memory that the process actually uses, as last measured. */
  readonly footprintBytes?: number;
  /** Live performance of a serving engine; absent until it is known. */
  readonly performance?: Performance;
  /** Start of the current run, on the wall clock. */
  readonly startedAtMs?: number;
  readonly readyAtMs?: number;
  readonly port?: number;
  readonly pid?: number;
  /** Set while the weights are being fetched. */
  readonly download?: DownloadReading;
}

export interface DownloadReading {
  readonly bytes: number;
  /** Absent until the server has reported the size. */
  readonly totalBytes?: number;
  /** Absent before the first measurement. */
  readonly bytesPerSecond?: number;
}

/** Bytes of the budget, of all claims, and available now; undefined if they are not known. */
export interface BenchmarkMisfit {
  readonly budgetBytes: number | undefined;
  readonly claimedBytes: number;
  readonly availableBytes: number | undefined;
}

export interface ReplicaRunner {
  /** Reads the state on disk and adopts every engine that is still running. Call it before anything else. */
  readonly adopt: () => Promise<void>;
  /** Before the connection no slice is known, no Secret can be read, and nothing is written. */
  readonly connect: (cluster: ReplicaCluster) => void;
  /** Reports a change from the watch: the replica, or undefined if the API server no longer has one with this uid. */
  readonly setDesired: (uid: string, replica: InferenceReplica | undefined) => void;
  /**
   * Reports a complete list. It overrides everything known before: engines of all other uids must stop, and endpoints may be
   * announced.
   */
  readonly listed: (replicas: readonly InferenceReplica[]) => void;
  readonly enqueue: (uid: string) => void;
  /** Reports a changed slice. `key` is the replica's `namespace/name`. */
  readonly sliceChanged: (key: string) => void;
  /** Plans all replicas again, after a change that may affect each of them: an address, the budget, a wake from sleep. */
  readonly enqueueAll: () => void;
  /** Reports a wake from sleep: every engine is probed immediately, and nothing is announced before the next list. */
  readonly wake: (pause: { readonly countedMs: number }) => void;
  readonly snapshot: () => readonly ReplicaSnapshot[];
  /** True once each engine of the previous agent is adopted, or known to have exited. */
  readonly knowsAllEngines: () => boolean;
  /** True once every replica was inspected: from then on the store knows all weights that are in use. */
  readonly hasInspectedAll: () => boolean;
  /** Counts since the agent's start. */
  readonly counts: () => HostCounts;
  /** Reads the gauges of all serving engines, each with a timeout of `timeoutMs`. */
  readonly readEngines: (timeoutMs: number) => Promise<readonly EngineReading[]>;
  /** The engines as the pressure governor sees them, and when the OS last killed one. */
  readonly governed: () => {
    readonly engines: readonly GovernedEngine[];
    readonly killedAt: number | undefined;
  };
  /** Stops the engine to free its memory, until it is readmitted. The eviction is saved to disk. */
  readonly evict: (uid: string, how: "evict" | "unload", because: string) => void;
  /** Reports a reading of the machine's memory: replicas that wait for memory are planned again. */
  readonly memoryRead: () => void;
  /** Reports damaged content: replicas that use it record an Event, and fetch it again before their next start. */
  readonly weightsDamaged: (sha256: string, note: string) => void;
  /** Lets the engine start again after an eviction. */
  readonly readmit: (uid: string) => void;
  /** Addresses that running engines listen on. No I/O, because every pass calls it. */
  readonly addressesInUse: () => readonly string[];
  /** Bytes reserved by all replicas together. */
  readonly claimedBytes: () => number;
  /** Calls `onChange` whenever a replica was assigned or removed, or its phase has changed. */
  readonly watch: (onChange: () => void) => void;
  /** Reserves memory for a benchmark beside the reservations of replicas, until it is released; otherwise returns why it does not fit. */
  readonly reserveBenchmark: (claimBytes: number) => "reserved" | BenchmarkMisfit;
  /** Replicas that wait for memory are planned again immediately. */
  readonly releaseBenchmark: () => void;
  /** Replaces `adopt` in a dry run: reads the replicas and the running engines. Writes, starts and signals nothing. */
  readonly inspect: (replicas: readonly InferenceReplica[]) => Promise<void>;
  /** The plans of all replicas, as text. */
  readonly describePlans: () => Promise<string>;
  /** Drains and stops every engine. Resolves once all have exited and their status is published, or time is up. */
  readonly endEngines: (atOnce: AbortSignal) => Promise<void>;
  /** Stops supervision; the engines keep running. */
  readonly stop: () => Promise<void>;
}
