/** What the controller's watches are started with, and the handlers that they call. */
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { Model } from "../../../src/api/model.ts";
import type { KubeConnection } from "../../../src/kube/client/connect.ts";
import type { ConfigMap, Lease } from "../../../src/kube/objects.ts";
import type { KubeObject, Reflector } from "../../../src/kube/types.ts";
import type { ReflectorOptions, startReflector } from "../../../src/kube/watch/reflector.ts";
import type { Node } from "../../../src/kube/workload-objects.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";

export interface WatchOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Starts each watch. Tests pass snapshots, which list on demand. */
  readonly startReflector: typeof startReflector;
}

/** With `hostsOnly`, the kinds that only pods need are not watched. */
export interface WatchedPaths {
  readonly hostsOnly: boolean;
}

/** Starts the watch of one kind. */
export type StartWatch = <T extends KubeObject>(
  rest: Omit<ReflectorOptions<T>, keyof WatchOptions>,
) => Reflector<T>;

/** Handlers for changes. Each handler is quick and only enqueues. */
export interface ChangeHandlers {
  readonly onModel: (namespace: string, name: string) => void;
  /** `namespace/name` of an InferenceService. */
  readonly onService: (key: string) => void;
  /** An optional kind exists now. */
  readonly onKind: () => void;
  /** For `namespace/name` of a Model, if a service that names it was added or removed, or needs the weights elsewhere. */
  readonly onWeights: (model: string) => void;
  readonly onReplica: (
    key: string,
    replica: InferenceReplica | undefined,
    before: InferenceReplica | undefined,
  ) => void;
  /** Called instead of `onService`, `onReplica` and `onHostMember` if only the live performance of a replica has changed. */
  readonly onPerformance: (key: string, replica: InferenceReplica) => void;
  /** For a Model that hosts prefetch, or did before the change. */
  readonly onPrefetched: (model: Model | undefined, before: Model | undefined) => void;
  readonly onHost: (name: string, host: Host | undefined, before: Host | undefined) => void;
  readonly onNode: (node: Node | undefined, before: Node | undefined) => void;
  /** A ResourceSlice of this node has changed. */
  readonly onNodeSlice: (node: string) => void;
  /** A DeviceClass was added or removed. */
  readonly onDeviceClass: (name: string) => void;
  readonly onNodeReport: (report: ConfigMap | undefined, before: ConfigMap | undefined) => void;
  /** LeaderWorkerSet was installed or removed. */
  readonly onGroupKind: () => void;
  /** The ConfigMap with measured speeds has changed. */
  readonly onBenchmarks: () => void;
  /** Something has changed that benchmarks read of a Model, a service or its pods. */
  readonly onBenchmarkFacts: () => void;
  /** The spec of a BackendRuntime has changed, or it was created or deleted. */
  readonly onBackend: (name: string) => void;
  /** Something else has changed that the status of a BackendRuntime depends on. */
  readonly onBackendMember: (name: string) => void;
  readonly onHostMember: (host: string) => void;
  readonly onRenewal: (host: string) => void;
  /** A gateway has renewed the demand Lease of the service `key` (`namespace/name`). */
  readonly onDemand: (key: string, mark: string) => void;
}

/** Observes Leases, beginning with the first list. */
export interface LeaseObserver {
  /** Returns true for a new renewal. `isEarly` is true before the first subscription. */
  readonly isRenewal: (host: string, lease: Lease, isEarly: boolean) => boolean;
  /** Called when the watch is interrupted. */
  readonly onInterrupted: () => void;
}

/** Calls a function with each subscriber. */
export type Emit = (notify: (on: ChangeHandlers) => void) => void;
