/** Findings from the objects of the demo, without reports about an earlier run. Pure. */

import { type Condition, getCondition } from "../../src/api/conditions.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import type { Model } from "../../src/api/model.ts";

/** The objects as this run applied them. */
export interface AppliedObjects {
  readonly model: Model;
  readonly service: InferenceService;
}

export interface DemoObservation {
  readonly model: Model | undefined;
  readonly service: InferenceService | undefined;
  readonly replicas: readonly InferenceReplica[];
}

export interface DemoFinding {
  readonly who: string;
  readonly phase: string;
  readonly message: string | undefined;
  /** When the phase or its reason last changed. */
  readonly changedAt: string | undefined;
}

/**
 * A status counts if it is based on the applied generation. The status of the service must also name the current source of the
 * Model, because the generation of the service does not change with the Model. A replica counts if it has the update revision.
 * While replicas of another revision exist, a failure of the service may be theirs and is skipped.
 */
export function findingsOf(
  { model, service, replicas }: DemoObservation,
  applied: AppliedObjects,
): readonly DemoFinding[] {
  const { name } = applied.service.metadata;
  const source = model?.spec.source ?? applied.model.spec.source;
  // The user may have changed the service to another Model, whose changes the demo does not follow.
  const isOfModel = (reported: string | undefined) =>
    reported === source || mainModelOf((service ?? applied.service).spec) !== applied.model.metadata.name;
  const current = isAbout(service, applied.service) && isOfModel(service?.status?.model?.source);
  const revision = current ? service?.status?.updateRevision : undefined;
  const { own = [], others = [] } = Object.groupBy(replicas, ({ spec: { template } }) =>
    template.revision === revision && isOfModel(template.model.source) ? "own" : "others",
  );
  const isOfOthers = service?.status?.phase === "Failed" && others.length > 0;
  return [
    ...(isAbout(model, applied.model) ? finding(`Model/${name}`, model?.status) : []),
    ...own.flatMap(({ metadata, status }) => {
      // A Stopped replica is from an earlier run, and the new agent has not adopted it yet.
      if (status?.phase === undefined || status.phase === "Stopped") return [];
      const { phase, message, transitions } = status;
      const who = `InferenceReplica/${metadata.name}`;
      return [{ who, phase, message, changedAt: transitions?.at(-1)?.at }];
    }),
    ...(current && !isOfOthers ? finding(`InferenceService/${name}`, service?.status) : []),
  ];
}

interface WithGeneration {
  readonly metadata: { readonly generation?: number | undefined };
  readonly status?: { readonly observedGeneration?: number | undefined } | undefined;
}

function isAbout(object: WithGeneration | undefined, applied: WithGeneration): boolean {
  return (object?.status?.observedGeneration ?? -1) >= (applied.metadata.generation ?? 0);
}

interface Status {
  readonly phase?: string | undefined;
  readonly message?: string | undefined;
  readonly conditions?: readonly Condition[] | undefined;
}

function finding(who: string, status: Status | undefined): readonly DemoFinding[] {
  if (status?.phase === undefined) return [];
  const { phase, message, conditions } = status;
  const changedAt = (getCondition(conditions, "Ready") ?? getCondition(conditions, "Available"))
    ?.lastTransitionTime;
  return [{ who, phase, message, changedAt }];
}
