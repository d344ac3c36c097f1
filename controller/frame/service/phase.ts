/** Phases and conditions that are the same on every path. Pure. */

import { type ConditionUpdate, isConditionTrue } from "../../../src/api/conditions.ts";
import type { InferenceService, InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import type { Blocked } from "../../../src/capacity/resolve.ts";
import type { Obstacle } from "../apply/run.ts";

export interface PhaseStatus {
  readonly phase: NonNullable<InferenceServiceStatus["phase"]>;
  readonly reason: string;
  readonly message: string;
}

/** Undefined if nothing outside the service keeps it from running. */
export function obstructedPhase(obstacle: Obstacle, { metadata }: InferenceService): PhaseStatus | undefined {
  switch (obstacle.at) {
    case "none":
      return undefined;
    case "nameTaken":
      return { phase: "Failed", reason: "ServiceNameTaken", message: obstacle.message };
    case "terminating":
      return {
        phase: "Pending",
        reason: "NamespaceTerminating",
        message: `namespace ${metadata.namespace} is being deleted`,
      };
    default:
      return obstacle satisfies never;
  }
}

export function readyText(ready: number, desired: number): string {
  return `${ready} of ${desired} replicas ready`;
}

/** True in the phases that follow the first Ready, as long as something should run. */
export function hasServed({ status }: InferenceService): boolean {
  return status?.phase === "Ready" || status?.phase === "Progressing" || status?.phase === "Degraded";
}

/** True while the Model is read for the first time or after a change of its spec, which is not a fault. */
export function isReadingModel(
  resolution: { readonly at: "resolved" } | Blocked,
  model: Model | undefined,
): boolean {
  const isUnread = resolution.at === "blocked" && resolution.code === "ModelNotReady";
  return isUnread && !isConditionTrue(model?.status?.conditions, "Degraded");
}

/** For what is only known once the service can be resolved. */
export function unresolved(
  type: string,
  { code }: Blocked,
  until = "the Model has been read",
): ConditionUpdate {
  return { type, status: "Unknown", reason: code, message: `unknown until ${until}` };
}

/** The condition SpecHonored of a service that is resolved. `ignored` says what becomes of the other fields. */
export function honoredCondition(
  ignored: string,
  { unhonored, notes }: { readonly unhonored: readonly string[]; readonly notes: readonly string[] },
): ConditionUpdate {
  const type = "SpecHonored";
  const isHonored = unhonored.length === 0;
  const message = [...(isHonored ? [] : [`${ignored}: ${unhonored.join(", ")}`]), ...notes].join("; ");
  if (isHonored) return { type, status: "True", reason: "AllFieldsHonored", message };
  return { type, status: "False", reason: "FieldsNotHonored", message };
}

/** The conditions Ready and Available. `counts` has the numbers of replicas. */
export function readiness(now: PhaseStatus, ready: number, counts: string): readonly ConditionUpdate[] {
  const { phase, reason, message } = now;
  const isReady = { type: "Ready", status: phase === "Ready" ? "True" : "False", reason, message } as const;
  if (ready > 0)
    return [isReady, { type: "Available", status: "True", reason: "InferenceReady", message: counts }];
  const isStopped = phase === "Stopped" || phase === "Suspended" || phase === "Idle";
  const why = isStopped || reason === "ServiceNameTaken" ? reason : "NoReadyReplicas";
  return [isReady, { type: "Available", status: "False", reason: why, message }];
}

/** True in phases that proceed to Ready. */
export function isMoving({ phase }: PhaseStatus): boolean {
  return phase === "Creating" || phase === "Progressing" || phase === "Pending";
}

/** Undefined if the desired number of replicas is not 0. */
export function stoppedPhase(desired: number, { spec, status }: InferenceService): PhaseStatus | undefined {
  if (desired > 0) return undefined;
  if (status?.idle?.state === "Idle")
    return {
      phase: "Idle",
      reason: "Idle",
      message: "unloaded; the next request through the gateway loads it",
    };
  if (spec.suspend) {
    return {
      phase: "Suspended",
      reason: "Suspended",
      message: "spec.suspend is true; set it to false to serve again",
    };
  }
  return {
    phase: "Stopped",
    reason: "ManuallyScaledToZero",
    message: "spec.replicas is 0; scale up to serve again",
  };
}
