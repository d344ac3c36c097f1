/** What a pass has done so far, and what of it went wrong. */

import { LABEL_SERVICE_UID } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import { CONTROLLER_REVISIONS, ENDPOINT_SLICES, SERVICES } from "../../../src/kube/kinds.ts";
import type { ApiFailure, ApiResult, Kind, KubeClient, KubeObject } from "../../../src/kube/types.ts";
import type { Log } from "../../../src/ports.ts";
import { ApiCallFailed } from "../failure.ts";
import type { Owned, OwnedKind } from "../plan/steps.ts";
import type { Removal } from "../rollout/types.ts";
import type { Obstacle } from "../status/facts.ts";
import { type Rejection, rejectionOf } from "./rejection.ts";

export const KINDS: { readonly [K in OwnedKind]: Kind<Owned[K]> } = {
  replica: INFERENCE_REPLICAS,
  slice: ENDPOINT_SLICES,
  kubeService: SERVICES,
  revision: CONTROLLER_REVISIONS,
};

export interface Outcome {
  readonly obstacle: Obstacle;
  /** What the API server does not take; the rest was made as far as that goes without it. */
  readonly rejections: readonly Rejection[];
  /** Replicas that exist now as planned, and those of them that this pass really made. */
  readonly created: readonly InferenceReplica[];
  readonly made: readonly InferenceReplica[];
  /** Replicas that were deleted, which ends them once they are drained. */
  readonly removed: readonly Removal[];
  /** Somebody else wrote meanwhile, or the copy is behind: look again soon. */
  readonly isBehind: boolean;
}

export interface Run {
  /** Names of the replicas that this pass makes. */
  readonly planned: ReadonlySet<string>;
  obstacle: Obstacle;
  rejections: Rejection[];
  /** There is no Service of ours, so nothing is begun that nobody could reach, nor carries its name. */
  isWithoutService: boolean;
  created: InferenceReplica[];
  made: InferenceReplica[];
  removed: Removal[];
  isBehind: boolean;
}

export interface StepPorts {
  readonly client: KubeClient;
  readonly log: Log;
}

/** Nothing done yet. */
export function newRun(planned: ReadonlySet<string>): Run {
  const nothing = { rejections: [], created: [], made: [], removed: [] };
  return { planned, obstacle: { at: "none" }, isWithoutService: false, isBehind: false, ...nothing };
}

/** Gone is done; a conflict is looked at again. */
export function settle(run: Run, what: string, result: ApiResult<unknown>): void {
  if (result.ok || result.error.kind === "notFound") return;
  if (result.error.kind === "conflict") run.isBehind = true;
  else reject(run, what, result.error);
}

/** Throws where the API server has not said no: then only the pass as a whole can be tried again. */
export function reject(run: Run, what: string, failure: ApiFailure): void {
  const rejection = rejectionOf(what, failure);
  if (rejection === undefined) throw new ApiCallFailed(what, failure);
  run.rejections.push(rejection);
}

/** The uid of the service that an object is of. */
export function ownerOf({ metadata }: KubeObject): string | undefined {
  return metadata.labels?.[LABEL_SERVICE_UID];
}
