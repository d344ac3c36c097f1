/** Reads the progress of a rollout from the status of the service. Pure. */
import { type Condition, getCondition } from "../../src/api/conditions.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { desiredOf } from "../../src/api/inference-service/serving.ts";
import type { Model } from "../../src/api/model.ts";

export interface RolloutProgress {
  /** `stopped`: it does not resume without a change. */
  readonly at: "done" | "moving" | "stopped";
  /** Code of the cause, if the rollout has stopped. */
  readonly reason?: string | undefined;
  readonly message: string;
}

/** Condition reasons of a stopped rollout, on hosts and in pods. */
const STOPPED = ["RolloutStopped", "RolloutDeadlineExceeded"];
const COMPLETE = "RolloutComplete";

/**
 * The result depends on the replica counts, because the condition may be older than the last change. The condition provides
 * the message. `model` is the Model of the service, if it exists, because its changes also create a revision.
 */
export function rolloutProgressOf(service: InferenceService, model: Model | undefined): RolloutProgress {
  const { metadata, status } = service;
  if (metadata.deletionTimestamp !== undefined)
    return { at: "stopped", reason: "ServiceNotFound", message: "the service is being deleted" };
  if (status === undefined || (status.observedGeneration ?? 0) < (metadata.generation ?? 0))
    return { at: "moving", message: "the controller has not seen the last change yet" };
  if (model !== undefined && !isObserved(model, status.model?.source))
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

/** `source` is the source that the service runs. A Model without status counts as observed. */
function isObserved({ metadata, spec, status }: Model, source = spec.source): boolean {
  const { generation = 0 } = metadata;
  return (status?.observedGeneration ?? generation) >= generation && source === spec.source;
}

function missing(service: InferenceService, progressing: Condition | undefined): RolloutProgress | undefined {
  const { status } = service;
  const { replicas = 0, updatedReplicas = 0, readyReplicas = 0 } = status ?? {};
  const desired = desiredOf(service);
  const reported = progressing?.status === "True" ? progressing.message : "";
  const moving = (counted: string): RolloutProgress => {
    const why = status?.waitingFor === undefined ? "" : `; waiting for ${status.waitingFor}`;
    return { at: "moving", message: `${reported === "" ? counted : reported}${why}` };
  };
  if (desired === 0) return replicas === 0 ? undefined : moving(`${replicas} replicas are still leaving`);
  if (updatedReplicas < desired)
    return moving(`${updatedReplicas} of ${desired} replicas are of the new revision`);
  // Two replicas of the same slot and revision are a migration between hosts, and not part of the rollout.
  if (replicas > updatedReplicas && progressing?.reason !== COMPLETE)
    return moving(`${replicas - updatedReplicas} old replicas have not left yet`);
  if (readyReplicas < desired) return moving(`${readyReplicas} of ${desired} replicas answer`);
  return progressing?.status === "True" ? moving("the controller is not done yet") : undefined;
}

function done(service: InferenceService): RolloutProgress {
  const { metadata, status } = service;
  const desired = desiredOf(service);
  if (desired === 0) return { at: "done", message: `service ${metadata.name} is scaled to 0 replicas` };
  const revision = status?.updateRevision === undefined ? "" : ` of revision ${status.updateRevision}`;
  return {
    at: "done",
    message: `service ${metadata.name} is rolled out: ${desired} of ${desired} replicas${revision} answer`,
  };
}
