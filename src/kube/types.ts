/** What the rest of the code sees of the API server: objects, typed results, the client port. */
import type { ObjectMeta } from "../api/metadata.ts";

export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: ObjectMeta;
}

/** One kind of object as the API server addresses it. `T` ties results to it. */
export interface Kind<T extends KubeObject> {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Type carrier only; never set. */
  readonly __object?: T;
}

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

/** Why a call did not succeed. `status` is 0 when no response came; `message` is the server's sentence. */
export interface ApiFailure {
  readonly kind: FailureKind;
  readonly status: number;
  readonly reason: string;
  readonly message: string;
  readonly retryAfterMs?: number;
  /** After an apply that was not forced: paths of the fields that other managers own, such as `.spec.replicas`. */
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
  /** The newest object known (cache or live). Given, nothing is sent when the apply would change nothing, and its uid is carried, so that a deleted object is never created again. */
  readonly current?: T | undefined;
  /** Default: true. False: fields that another manager has changed are a `conflict`, and nothing is written. */
  readonly isForced?: boolean;
}

export interface WriteOptions {
  /** All of it but the keeping: defaults, validation, admission. A field that is not in the schema is refused. */
  readonly isDryRun?: boolean;
}

export interface RemoveOptions {
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly propagation?: "Background" | "Foreground" | "Orphan";
}

/** Every call is bounded by a timeout and never throws for what a server or network may do. */
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
  /** PUT; the object's resourceVersion must match. */
  readonly update: <T extends KubeObject>(
    kind: Kind<T>,
    object: T,
    options?: WriteOptions,
  ) => Promise<ApiResult<T>>;
  /** Server-side apply of one complete configuration, forced unless `isForced` is false. `value.sent` is false when nothing differed. */
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

/** A live, complete local copy of one kind, kept by list and watch for as long as its AbortSignal is not aborted. */
export interface Reflector<T extends KubeObject> {
  /** `namespace/name`, or `name` for cluster-scoped objects. */
  readonly get: (key: string) => T | undefined;
  readonly list: () => readonly T[];
  /** True after the first successful list of this process. */
  readonly isSynced: () => boolean;
  readonly whenSynced: () => Promise<void>;
  /** Monotonic time of the last event, bookmark or list; undefined before the first. */
  readonly lastSignMs: () => number | undefined;
  /** Grows with each failed attempt and once more when an interruption ends; each growth restarts the liveness timeouts. */
  readonly interruptions: () => number;
  /** Relists at once, on a connection of its own: after a sleep the watch may wait forever on a dead one. */
  readonly relist: () => void;
  /** If the watch is in backoff because the server was unreachable: retries within `ms`. The caller has seen it answer. */
  readonly retryWithin: (ms: number) => void;
}
