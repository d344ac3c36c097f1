/** What the objects of the demo report about what this run asked for; reports about an earlier run are left out. Pure. */
import { type Condition, getCondition } from "../../src/api/conditions.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";

/** The objects as they were when this run had applied them. */
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
 * A status counts when it is based on the generation that was applied. The service's also has to be about the Model's
 * source: its own generation stays when only the Model changes. A replica counts when it is of the revision that the
 * service is to have now. While replicas of another revision exist, the service's failure may be theirs.
 */
export function findingsOf(
  { model, service, replicas }: DemoObservation,
  applied: AppliedObjects,
): readonly DemoFinding[] {
  const { name } = applied.service.metadata;
  const source = model?.spec.source ?? applied.model.spec.source;
  // The user may have given the service another Model, whose changes are not ours to wait for.
  const isOfModel = (its: string | undefined) =>
    its === source || (service ?? applied.service).spec.modelRef !== applied.model.metadata.name;
  const current = isAbout(service, applied.service) && isOfModel(service?.status?.model?.source);
  const revision = current ? service?.status?.updateRevision : undefined;
  const [own, others] = partition(
    replicas,
    ({ spec: { template } }) => template.revision === revision && isOfModel(template.model.source),
  );
  const isOfOthers = service?.status?.phase === "Failed" && others.length > 0;
  return [
    ...(isAbout(model, applied.model) ? finding(`Model/${name}`, model?.status) : []),
    ...own.flatMap(({ metadata, status }) => {
      // Stopped is what an earlier run left behind: the agent of this one has not adopted it yet.
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

function partition<T>(all: readonly T[], isFirst: (one: T) => boolean): [T[], T[]] {
  return [all.filter(isFirst), all.filter((one) => !isFirst(one))];
}
