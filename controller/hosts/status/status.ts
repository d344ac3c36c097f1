/** Plans the complete status of a service on hosts. Fields that are absent are cleared. Pure. */

import {
  ANNOTATION_PLACEMENT_REASON,
  ANNOTATION_PLACEMENT_SCORE,
  LABEL_SERVICE,
} from "../../../src/api/group.ts";
import type { InferenceServiceStatus, ServicePlacement } from "../../../src/api/inference-service/index.ts";
import { defined } from "../../../src/util/defined.ts";
import { truncate } from "../../../src/util/text.ts";
import { serviceUrlOf } from "../../frame/owned/kube-service.ts";
import { servedModelOf } from "../../frame/service/served-model.ts";
import { hostsConditions } from "./conditions.ts";
import {
  currentlyPreempted,
  filledSlotCount,
  type HostsStatusFacts,
  type HostsStatusInput,
  readyCount,
  statusFacts,
} from "./facts.ts";
import { hintsFor } from "./hints.ts";
import { phaseOf } from "./phase.ts";
import { effectivePriority } from "./priority.ts";
import { revisionProgressOf } from "./progress.ts";

const MAX_MESSAGE = 4096;

export function planStatus(input: HostsStatusInput, nowIso: string): InferenceServiceStatus {
  const facts = statusFacts(input);
  const now = phaseOf(facts);
  const { service } = input.draft.observed;
  const [first] = facts.unplaced;
  const ready = readyCount(facts);
  const conditions = hostsConditions(facts, now, nowIso);
  return defined<InferenceServiceStatus>({
    phase: now.phase,
    reason: now.reason,
    message: truncate(now.message, MAX_MESSAGE),
    observedGeneration: service.metadata.generation,
    mode: service.spec.mode ?? "chat",
    currentRevision: revisionProgressOf(facts).current,
    updateRevision: input.draft.input.revision,
    replicas: facts.live.length,
    readyReplicas: ready,
    updatedReplicas: filledSlotCount(facts.updated, facts.desired),
    desiredReplicas: facts.desired,
    ready: `${ready}/${facts.desired}`,
    selector: `${LABEL_SERVICE}=${service.metadata.name}`,
    endpoint: serviceUrlOf(service),
    placement: placementOf(facts),
    queuePosition: first?.queuePosition,
    waitingFor: first?.waitingFor,
    effectivePriority: effectivePriority(service, conditions, facts.waiting.length > 0, Date.parse(nowIso)),
    conditions,
    ...modelOf(facts),
  });
}

function modelOf({
  draft: { observed, resolution },
}: HostsStatusFacts): Pick<InferenceServiceStatus, "model" | "runtime" | "inheritedSettings"> {
  const { service, model } = observed;
  const runtime = resolution.at === "resolved" ? resolution.template.runtime : service.spec.runtime;
  const { inheritedSettings } = (resolution.at === "resolved" ? resolution : service.status) ?? {};
  return { model: servedModelOf(service, model), runtime, inheritedSettings };
}

function placementOf(facts: HostsStatusFacts): ServicePlacement {
  const { live, unplaced, draft } = facts;
  const chosen = live.map(({ metadata, spec }) => {
    const { [ANNOTATION_PLACEMENT_REASON]: reason, [ANNOTATION_PLACEMENT_SCORE]: score } =
      metadata.annotations ?? {};
    return defined({
      replica: metadata.name,
      host: spec.template.hostName,
      score: score === undefined ? undefined : Number(score),
      reason,
    });
  });
  const preempted = currentlyPreempted(facts);
  const placement: ServicePlacement = preempted.length === 0 ? { chosen } : { chosen, preempted };
  const [first] = unplaced;
  if (first === undefined) return placement;
  const hints = hintsFor(draft, first.misses);
  const misses = first.misses.map(({ host, code, message, shortBytes }) => {
    const hint = hints.get(host);
    return defined({ host, reason: code, message, shortBytes, hint });
  });
  return { ...placement, misses, reasons: { ...first.counts } };
}
