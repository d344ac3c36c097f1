/** Records the results and failures of the steps of a pass. */

import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { ApiFailure, ApiResult, KubeClient, KubeObject } from "../../../src/kube/types.ts";
import type { Log } from "../../../src/util/ports.ts";
import type { OwnedKind } from "../owned/kinds.ts";
import { ApiCallFailed } from "./failure.ts";
import { type Rejection, rejectionOf } from "./rejection.ts";

/** A reason outside the service that keeps it from running. */
export type Obstacle =
  | { readonly at: "none" }
  | { readonly at: "nameTaken"; readonly message: string }
  | { readonly at: "terminating" };

export interface ReplicaRemoval {
  readonly replica: InferenceReplica;
  readonly because: string;
}

export interface ApplyOutcome {
  readonly obstacle: Obstacle;
  /** Objects that the API server rejected. Objects that do not depend on them were created. */
  readonly rejections: readonly Rejection[];
  /** Planned replicas that exist, and those of them that this pass created. */
  readonly created: readonly InferenceReplica[];
  readonly made: readonly InferenceReplica[];
  /** Replicas that were deleted, which stop once they are drained. */
  readonly removed: readonly ReplicaRemoval[];
  /** Objects that another client had edited, for example `Deployment chat`. */
  readonly restored: readonly string[];
  /** Objects that this pass changed, as the API server returned them. The watches do not show them yet. */
  readonly applied: ReadonlyMap<OwnedKind, KubeObject>;
  /** True if another client wrote at the same time, or the cache is behind, so the pass must run again soon. */
  readonly isBehind: boolean;
}

export interface ApplyRun {
  /** Names of the replicas that this pass creates. */
  readonly planned: ReadonlySet<string>;
  obstacle: Obstacle;
  rejections: Rejection[];
  /** True if the cluster Service could not be created. Replicas would be unreachable, and no slice may carry its name. */
  isWithoutService: boolean;
  created: InferenceReplica[];
  made: InferenceReplica[];
  removed: ReplicaRemoval[];
  restored: string[];
  readonly applied: Map<OwnedKind, KubeObject>;
  isBehind: boolean;
}

export interface StepPorts {
  readonly client: KubeClient;
  readonly log: Log;
  /** True if nothing runs in pods, so the controller has no permissions for their kinds. */
  readonly hostsOnly: boolean;
}

export function newApplyRun(planned: ReadonlySet<string>): ApplyRun {
  const nothing = { rejections: [], created: [], made: [], removed: [], restored: [], applied: new Map() };
  return { planned, obstacle: { at: "none" }, isWithoutService: false, isBehind: false, ...nothing };
}

/** Treats "not found" as success. After a conflict the pass runs again. */
export function recordResult(run: ApplyRun, action: string, result: ApiResult<unknown>): void {
  if (result.ok || result.error.kind === "notFound") return;
  if (result.error.kind === "conflict") run.isBehind = true;
  else reject(run, action, result.error);
}

/** Throws if the API server did not reject the call, so that the whole pass is retried. */
export function reject(run: ApplyRun, action: string, failure: ApiFailure): void {
  const rejection = rejectionOf(action, failure);
  if (rejection === undefined) throw new ApiCallFailed(action, failure);
  run.rejections.push(rejection);
}
