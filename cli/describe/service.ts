/** The description of a service: spec, placement, replicas, pods, conditions and events. Pure. */

import { getCondition } from "../../src/api/conditions.ts";
import { ANNOTATION_PLACEMENT_REASON, LABEL_REVISION } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { desiredOf } from "../../src/api/inference-service/serving.ts";
import type { Model } from "../../src/api/model.ts";
import { quantizationOfWeights } from "../../src/capacity/resolve.ts";
import { revisionSpec } from "../../src/capacity/revision-data.ts";
import { shortRevision } from "../../src/capacity/template.ts";
import type { KubeEvent } from "../../src/kube/objects.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { compareText } from "../../src/util/text.ts";
import { restartsOf, stateOfPod } from "../../src/verdicts/pod.ts";
import { claimBytesOf, phaseText, stateOfReplica } from "../../src/verdicts/replica.ts";
import { ageOf, agoOf } from "../program/age.ts";
import { conditionSection, eventSection, performanceText } from "./parts.ts";
import { type Field, fieldLines, renderSections, type Section, tableLines } from "./sections.ts";

export interface ServiceFacts {
  readonly service: InferenceService;
  readonly replicas: readonly InferenceReplica[];
  /** Empty also if the credential may not read pods. */
  readonly pods: readonly Pod[];
  /** Undefined if it does not exist, or if the credential may not read it. */
  readonly model: Model | undefined;
  readonly events: readonly KubeEvent[] | "forbidden";
}

export function renderServiceDetails(facts: ServiceFacts, nowMs: number): string {
  const { service, events } = facts;
  return renderSections(fieldLines(headOf(facts, nowMs)), [
    specSection(facts),
    replicaSection(facts, nowMs),
    podSection(facts, nowMs),
    placementSection(facts),
    conditionSection(service.status?.conditions, service.status?.message, nowMs),
    eventSection(events, nowMs),
  ]);
}

function headOf({ service, model }: ServiceFacts, nowMs: number): readonly Field[] {
  const { metadata, spec, status } = service;
  return [
    ["Name", metadata.name],
    ["Namespace", metadata.namespace],
    ["Phase", [status?.phase ?? "Pending", status?.reason].filter((word) => word !== undefined).join(", ")],
    ["Message", status?.message],
    ["Model", modelOf(mainModelOf(spec), model)],
    ["Model revision", pinnedRevision(spec.modelRevision)],
    ["Runtime", status?.runtime ?? spec.runtime],
    ["Endpoint", status?.endpoint],
    ["Replicas", replicasOf(service)],
    ["Performance", performanceText(status?.performance)],
    ["Revision", revisionOf(status)],
    ["Queue", queueOf(status)],
    ["Idle", idleOf(status, nowMs)],
    ["Deleted", metadata.deletionTimestamp],
    ["Created", agoOf(metadata.creationTimestamp, nowMs)],
  ];
}

function pinnedRevision(modelRevision: string | undefined): string | undefined {
  return modelRevision && `${shortRevision(modelRevision)}, pinned by spec.modelRevision`;
}

function modelOf(name: string, model: Model | undefined): string {
  if (model === undefined) return `${name} (not found, or not readable)`;
  const { phase, size, shortRevision } = model.status ?? {};
  const about = [model.spec.source, shortRevision, quantizationOfWeights(model), size, phase].filter(
    (word) => word !== undefined,
  );
  return `${name} (${about.join(", ")})`;
}

function replicasOf(service: InferenceService): string {
  const { status } = service;
  const { readyReplicas = 0, updatedReplicas = 0, replicas = 0 } = status ?? {};
  return `${desiredOf(service)} desired, ${readyReplicas} ready, ${updatedReplicas} of the newest revision, ${replicas} total`;
}

function idleOf(status: InferenceService["status"], nowMs: number): string | undefined {
  if (status?.idle === undefined) return undefined;
  const { state, since, lastRequestTime } = status.idle;
  const request =
    lastRequestTime === undefined ? "no request yet" : `last request ${agoOf(lastRequestTime, nowMs)}`;
  return `${state} for ${ageOf(since, nowMs)}, ${request}; ${getCondition(status.conditions, "Idle")?.message ?? ""}`;
}

function revisionOf(status: InferenceService["status"]): string | undefined {
  const { currentRevision, updateRevision } = status ?? {};
  if (updateRevision === undefined || currentRevision === undefined || currentRevision === updateRevision)
    return updateRevision ?? currentRevision;
  return `${updateRevision}, replacing ${currentRevision}`;
}

function queueOf(status: InferenceService["status"]): string | undefined {
  const { queuePosition, waitingFor } = status ?? {};
  if (queuePosition === undefined || queuePosition === 0) return waitingFor;
  return `number ${queuePosition}${waitingFor === undefined ? "" : `, waiting for ${waitingFor}`}`;
}

/** The fields that differ from the defaults, and the rollout settings. */
function specSection({ service: { spec, status }, pods }: ServiceFacts): Section {
  const { rollout, placement } = spec;
  const side = pods.length > 0 ? "Pods" : "Hosts";
  const { modelRef: _, priority: __, ...set } = revisionSpec(spec, spec.runtime ?? status?.runtime, side);
  const fields: Field[] = Object.entries(set).map(([field, value]) => [field, textOf(value)]);
  return {
    title: "Spec",
    lines: fieldLines([
      ...fields,
      [
        "priority",
        `${spec.priority}${spec.evictionProtection ? ", never evicted under memory pressure" : ""}`,
      ],
      ["hosts", placement.hosts?.join(", ")],
      ["host labels", placement.hostSelector === undefined ? undefined : textOf(placement.hostSelector)],
      ["spread", placement.spread],
      ["rollout", rolloutOf(rollout)],
      ["host lost", `rescheduled after ${spec.hostLostSeconds}s of silence`],
    ]),
  };
}

function rolloutOf({
  drainSeconds,
  maxSurge,
  maxUnavailable,
}: ServiceFacts["service"]["spec"]["rollout"]): string {
  const limits = [
    ...(maxSurge === undefined ? [] : [`maxSurge ${maxSurge}`]),
    ...(maxUnavailable === undefined ? [] : [`maxUnavailable ${maxUnavailable}`]),
  ];
  return [...limits, `drain at most ${drainSeconds}s`].join(", ");
}

function replicaSection({ service, replicas }: ServiceFacts, nowMs: number): Section {
  const newest = service.status?.updateRevision;
  const sorted = replicas.toSorted((a, b) => compareText(a.metadata.name, b.metadata.name));
  const rows = sorted.map((replica) => {
    const { metadata, spec, status } = replica;
    const { hostName, revision } = spec.template;
    return [
      metadata.name,
      phaseText(replica),
      hostName,
      newest === undefined || newest === revision ? revision : `${revision} (old)`,
      formatBytes(claimBytesOf(replica)),
      String(status?.restarts ?? 0),
      ageOf(metadata.creationTimestamp, nowMs) ?? "",
      stateOfReplica(replica).message,
    ];
  });
  const titles = ["REPLICA", "PHASE", "HOST", "REVISION", "CLAIM", "RESTARTS", "AGE", "MESSAGE"];
  return { title: "Replicas", lines: tableLines(titles, rows) };
}

function podSection({ service, pods }: ServiceFacts, nowMs: number): Section {
  const newest = service.status?.updateRevision;
  const sorted = pods.toSorted((a, b) => compareText(a.metadata.name, b.metadata.name));
  const rows = sorted.map((pod) => {
    const { metadata, spec } = pod;
    const revision = metadata.labels?.[LABEL_REVISION] ?? "";
    const { word, message } = stateOfPod(pod);
    return [
      metadata.name,
      word,
      spec.nodeName ?? "",
      newest === undefined || newest === revision ? revision : `${revision} (old)`,
      String(restartsOf(pod)),
      ageOf(metadata.creationTimestamp, nowMs) ?? "",
      message,
    ];
  });
  const titles = ["POD", "PHASE", "NODE", "REVISION", "RESTARTS", "AGE", "MESSAGE"];
  return { title: "Pods", lines: tableLines(titles, rows) };
}

/** Why hosts were chosen, and why others were not. A pod has the reason of the choice, but kube-scheduler picked the node. */
function placementSection({ service: { status }, pods }: ServiceFacts): Section {
  const { chosen = [], misses = [], reasons = {} } = status?.placement ?? {};
  const ofPods = pods.flatMap(({ metadata, spec }) => {
    const reason = metadata.annotations?.[ANNOTATION_PLACEMENT_REASON];
    return reason === undefined ? [] : [[spec.nodeName ?? "", metadata.name, "", reason]];
  });
  const explained = chosen.filter(({ reason }) => reason !== undefined);
  const counts = Object.entries(reasons).map(([code, count]) => `${code} ${count}`);
  return {
    title: "Placement",
    lines: [
      ...tableLines(
        ["CHOSEN", "FOR", "SCORE", "BECAUSE"],
        [
          ...explained.map(({ host, replica, score = "", reason = "" }) => [
            host,
            replica,
            String(score),
            reason,
          ]),
          ...ofPods,
        ],
      ),
      ...tableLines(
        ["NOT CHOSEN", "REASON", "BECAUSE"],
        misses.map(({ host, reason, message }) => [host, reason, message ?? ""]),
      ),
      ...(counts.length === 0 ? [] : [`hosts refused, by reason: ${counts.join(", ")}`]),
    ],
  };
}

function textOf(value: unknown): string {
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
