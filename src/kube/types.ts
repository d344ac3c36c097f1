/** Interfaces to the API server: objects, typed results, the client port. */
import type { ApiKind, ObjectMeta } from "../api/metadata.ts";

export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
}

export type Kind<T extends KubeObject> = ApiKind<T>;

export interface ObjectRef {
  readonly name: string;
  readonly namespace?: string | undefined;
}

export type FailureKind =
  | "notFound"
  | "alreadyExists"
  | "conflict"
  | "invalid"
  | "forbidden"
  | "unauthorized"
  | "gone"
  | "throttled"
  | "unavailable"
  | "unreachable"
  | "unexpected";

/** The reason why a call failed. `status` is 0 if there was no response; `message` is that of the server. */
export interface ApiFailure {
  readonly kind: FailureKind;
  readonly status: number;
  readonly reason: string;
  readonly message: string;
  readonly retryAfterMs?: number;
  /** After an apply that was not forced: paths of fields that other managers own, such as `.spec.replicas`. */
  readonly conflictFields?: readonly string[] | undefined;
}

export type ApiResult<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: ApiFailure };

export type JsonPatchOp =
  | { readonly op: "add" | "replace" | "test"; readonly path: string; readonly value: unknown }
  | { readonly op: "remove"; readonly path: string };

export interface ListOptions {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
}

export interface ApplyOptions<T> {
  readonly manager: string;
  readonly subresource?: "status";
  /**
   * The newest known object, cached or live. If it is set, an apply that would change nothing is not sent, and the request
   * carries the uid of the object, so that a deleted object is never created again.
   */
  readonly current?: T | undefined;
  /** Defaults to true. If false, fields that another manager has changed cause a `conflict`, and nothing is written. */
  readonly isForced?: boolean;
}

export interface WriteOptions {
  /** If true, the request runs defaulting, validation and admission without storing the object. Unknown fields are rejected. */
  readonly isDryRun?: boolean;
}

export interface RemoveOptions {
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly propagation?: "Background" | "Foreground" | "Orphan";
}

/** Every call has a timeout and returns failures of the server and the network as values. */
export interface KubeClient {
  readonly get: <T extends KubeObject>(kind: Kind<T>, ref: ObjectRef) => Promise<ApiResult<T>>;
  readonly list: <T extends KubeObject>(
    kind: Kind<T>,
    options?: ListOptions,
  ) => Promise<ApiResult<{ items: T[]; resourceVersion: string }>>;
  readonly create: <T extends KubeObject>(
    kind: Kind<T>,
    object: T,
    options?: WriteOptions,
  ) => Promise<ApiResult<T>>;
  /** PUT. The object's resourceVersion must match. */
  readonly update: <T extends KubeObject>(
    kind: Kind<T>,
    object: T,
    options?: WriteOptions,
  ) => Promise<ApiResult<T>>;
  /** Server-side apply of a complete configuration, forced unless `isForced` is false. `value.sent` is false if nothing differed. */
  readonly apply: <T extends KubeObject>(
    kind: Kind<T>,
    object: T,
    options: ApplyOptions<T>,
  ) => Promise<ApiResult<{ object: T; sent: boolean }>>;
  readonly jsonPatch: <T extends KubeObject>(
    kind: Kind<T>,
    ref: ObjectRef,
    operations: readonly JsonPatchOp[],
    options?: { readonly subresource?: "status" },
  ) => Promise<ApiResult<T>>;
  readonly remove: <T extends KubeObject>(
    kind: Kind<T>,
    ref: ObjectRef,
    options?: RemoveOptions,
  ) => Promise<ApiResult<void>>;
}

/** A live, complete local copy of a kind, updated by list and watch until its AbortSignal is aborted. */
export interface Reflector<T extends KubeObject> {
  /** `namespace/name`, or `name` for cluster-scoped objects. */
  readonly get: (key: string) => T | undefined;
  readonly list: () => readonly T[];
  /** True after the first successful list of this process. */
  readonly isSynced: () => boolean;
  readonly whenSynced: () => Promise<void>;
  /** Monotonic time of the last event, bookmark or list; undefined before the first one. */
  readonly lastActivityMs: () => number | undefined;
  /** Incremented with each failed attempt and at the end of an interruption. Each increment restarts the liveness timeouts. */
  readonly interruptions: () => number;
  /** Relists immediately on a new connection: after a sleep, the watch may wait forever on a dead one. */
  readonly relist: () => void;
  /** Retries within `ms` if the watch is in backoff because the server was unreachable. The caller knows that it answers again. */
  readonly retryWithin: (ms: number) => void;
}
