/** How far the rollout of a service is, read from its status. Pure. */
import { type Condition, getCondition } from "../../src/api/conditions.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";

export interface RolloutProgress {
  /** `stopped`: it does not resume without a change. */
  readonly at: "done" | "moving" | "stopped";
  /** Code of what stopped it. */
  readonly reason?: string | undefined;
  readonly message: string;
}

/** Reasons of the controller: a new revision fails, on hosts or in pods; all replicas have the new one. */
const STOPPED = ["RolloutStopped", "RolloutDeadlineExceeded"];
const COMPLETE = "RolloutComplete";

/**
 * Counts decide, because the condition may be older than the last change; the condition gives the message. `model` is the
 * one that the service runs, undefined where there is none: a change of it is a new revision too.
 */
export function rolloutProgressOf(service: InferenceService, model: Model | undefined): RolloutProgress {
  const { metadata, status } = service;
  if (metadata.deletionTimestamp !== undefined)
    return { at: "stopped", reason: "ServiceNotFound", message: "the service is being deleted" };
  if (status === undefined || (status.observedGeneration ?? 0) < (metadata.generation ?? 0))
    return { at: "moving", message: "the controller has not seen the last change yet" };
  if (model !== undefined && !isSeen(model, status.model?.source))
    return {
      at: "moving",
      message: `the controller has not seen the last change of Model ${model.metadata.name} yet`,
    };
  const progressing = getCondition(status.conditions, "Progressing");
  if (progressing !== undefined && STOPPED.includes(progressing.reason))
    return { at: "stopped", reason: progressing.reason, message: progressing.message };
  if (status.phase === "Failed")
    return {
      at: "stopped",
      reason: status.reason,
      message: status.message ?? "it will not work as specified",
    };
  return missing(service, progressing) ?? done(service);
}

/** `source`: what the service runs. A service does not get far with a Model that no controller has read yet. */
function isSeen({ metadata, spec, status }: Model, source = spec.source): boolean {
  const { generation = 0 } = metadata;
  return (status?.observedGeneration ?? generation) >= generation && source === spec.source;
}

function missing(
  { spec, status }: InferenceService,
  progressing: Condition | undefined,
): RolloutProgress | undefined {
  const { replicas = 0, updatedReplicas = 0, readyReplicas = 0 } = status ?? {};
  const wanted = status?.desiredReplicas ?? spec.replicas;
  const reported = progressing?.status === "True" ? progressing.message : "";
  const moving = (counted: string): RolloutProgress => {
    const why = status?.waitingFor === undefined ? "" : `; waiting for ${status.waitingFor}`;
    return { at: "moving", message: `${reported === "" ? counted : reported}${why}` };
  };
  if (wanted === 0) return replicas === 0 ? undefined : moving(`${replicas} replicas are still leaving`);
  if (updatedReplicas < wanted)
    return moving(`${updatedReplicas} of ${wanted} replicas are of the new revision`);
  // Two replicas of one slot and one revision are a move from host to host, and no part of the rollout.
  if (replicas > updatedReplicas && progressing?.reason !== COMPLETE)
    return moving(`${replicas - updatedReplicas} old replicas have not left yet`);
  if (readyReplicas < wanted) return moving(`${readyReplicas} of ${wanted} replicas answer`);
  return progressing?.status === "True" ? moving("the controller is not done yet") : undefined;
}

function done({ metadata, spec, status }: InferenceService): RolloutProgress {
  const wanted = status?.desiredReplicas ?? spec.replicas;
  if (wanted === 0)
    return { at: "done", message: `service ${metadata.name} wants no replicas, and has none` };
  const revision = status?.updateRevision === undefined ? "" : ` of revision ${status.updateRevision}`;
  return {
    at: "done",
    message: `service ${metadata.name} is rolled out: ${wanted} of ${wanted} replicas${revision} answer`,
  };
}
