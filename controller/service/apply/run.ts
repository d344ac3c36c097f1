/** What a pass has done so far, and what failed. */

import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { ApiFailure, ApiResult, KubeClient, KubeObject } from "../../../src/kube/types.ts";
import type { Log } from "../../../src/util/ports.ts";
import type { ReplicaRemoval } from "../hosts/rollout/types.ts";
import type { OwnedKind } from "../owned/kinds.ts";
import { ApiCallFailed } from "./failure.ts";
import { type Rejection, rejectionOf } from "./rejection.ts";

/** What outside the service keeps it from running. */
export type Obstacle =
  | { readonly at: "none" }
  | { readonly at: "nameTaken"; readonly message: string }
  | { readonly at: "terminating" };

export interface ApplyOutcome {
  readonly obstacle: Obstacle;
  /** Objects that the API server rejected; the rest was created as far as possible without them. */
  readonly rejections: readonly Rejection[];
  /** Replicas that exist now as planned, and those of them that this pass created. */
  readonly created: readonly InferenceReplica[];
  readonly made: readonly InferenceReplica[];
  /** Replicas that were deleted; they stop once they are drained. */
  readonly removed: readonly ReplicaRemoval[];
  /** Objects that another client had edited, as in `Deployment chat`. */
  readonly restored: readonly string[];
  /** What this pass has changed, as the API server has it now: the watches have not heard of it yet. */
  readonly applied: ReadonlyMap<OwnedKind, KubeObject>;
  /** Another client wrote meanwhile, or the cache is behind: recheck soon. */
  readonly isBehind: boolean;
}

export interface ApplyRun {
  /** Names of the replicas that this pass creates. */
  readonly planned: ReadonlySet<string>;
  obstacle: Obstacle;
  rejections: Rejection[];
  /**
   * There is no Service of ours: no replica is created, as clients could not reach it, and no slice may carry
   * the name.
   */
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
  /** Nothing runs in pods: the controller has no rights to what surrounds them. */
  readonly hostsOnly: boolean;
}

/** Nothing done yet. */
export function newApplyRun(planned: ReadonlySet<string>): ApplyRun {
  const nothing = { rejections: [], created: [], made: [], removed: [], restored: [], applied: new Map() };
  return { planned, obstacle: { at: "none" }, isWithoutService: false, isBehind: false, ...nothing };
}

/** Not found is success; a conflict is rechecked. */
export function recordResult(run: ApplyRun, what: string, result: ApiResult<unknown>): void {
  if (result.ok || result.error.kind === "notFound") return;
  if (result.error.kind === "conflict") run.isBehind = true;
  else reject(run, what, result.error);
}

/** Throws where the API server did not reject the call: then only the whole pass can be retried. */
export function reject(run: ApplyRun, what: string, failure: ApiFailure): void {
  const rejection = rejectionOf(what, failure);
  if (rejection === undefined) throw new ApiCallFailed(what, failure);
  run.rejections.push(rejection);
}
