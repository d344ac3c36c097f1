/** Phases that are the same on every path. Pure. */
import type { InferenceService, InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import type { Obstacle } from "../apply/run.ts";
import type { ConditionUpdate } from "../../../src/api/conditions.ts";
import type { Blocked } from "../../../src/capacity/resolve.ts";

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

/** A condition that depends on the Model. */
export function unknownUntilRead(type: string, { code: reason }: Blocked): ConditionUpdate {
  return { type, status: "Unknown", reason, message: "unknown until the Model has been read" };
}

/** True in phases in which nothing should run. */
export function isStoppedPhase(phase: InferenceServiceStatus["phase"]): boolean {
  return phase === "Stopped" || phase === "Suspended" || phase === "Idle";
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
