/** The row of a Model, with its copies and downloads on hosts and on the volume for pods. Pure. */
import { getCondition, isConditionTrue } from "../../../src/api/conditions.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
import { quantizationOfWeights } from "../../../src/capacity/resolve.ts";
import type { Attention, DownloadRow, ModelRow, StateWord } from "../../../src/console/rows.ts";
import { downloadWord } from "../../../src/verdicts/download.ts";
import { attentionOf, conditionFinding, type Finding } from "./attention.ts";

export interface ModelObjects {
  readonly model: Model;
  /** `namespace/name` of the services that use it. */
  readonly services: readonly string[];
  /** Replicas of these services. */
  readonly replicas: readonly InferenceReplica[];
  /** Hosts that prefetch it. */
  readonly hosts: readonly Host[];
}

export function modelRow(objects: ModelObjects): ModelRow {
  const { model, services } = objects;
  const { metadata, spec, status } = model;
  const downloads = downloadsOf(objects);
  return {
    namespace: metadata.namespace ?? "default",
    name: metadata.name,
    state: modelState(model, downloads),
    message: status?.message ?? "",
    attention: modelAttention(model, downloads),
    source: spec.source,
    family: spec.familyName ?? "",
    format: status?.format ?? spec.format ?? "",
    quantization: quantizationOfWeights(model) ?? "",
    sizeBytes: status?.sizeBytes,
    copies: (status?.hosts ?? []).map(({ name }) => name),
    downloads: downloads.map(({ reason: _, ...row }) => row),
    services: [...services].sort(),
    benchmarks: status?.benchmarks?.length ?? 0,
    resourceVersion: metadata.resourceVersion ?? "",
  };
}

interface Download extends DownloadRow {
  readonly reason?: string | undefined;
}

/** One per place: the download for a replica comes before the prefetch. */
function downloadsOf({ model, replicas, hosts }: ModelObjects): readonly Download[] {
  const all = [
    ...replicas.flatMap((replica) => replicaDownload(replica)),
    ...hosts.flatMap((host) => prefetchOn(host, keyOf(model.metadata))),
    ...cacheDownload(model),
  ];
  const byPlace = new Map(all.toReversed().map((one) => [one.place, one]));
  return [...byPlace.values()].sort((a, b) => (a.place < b.place ? -1 : 1));
}

function replicaDownload({ spec, status }: InferenceReplica): readonly Download[] {
  if (status?.phase !== "Fetching") return [];
  const { bytes = 0, totalBytes, bytesPerSecond } = status.progress ?? {};
  return [{ place: spec.template.hostName, phase: "Downloading", bytes, totalBytes, bytesPerSecond }];
}

function prefetchOn({ metadata, status }: Host, key: string): readonly Download[] {
  return (status?.prefetch?.models ?? []).flatMap(
    ({ model, phase, reason, message, bytes = 0, totalBytes }) =>
      model === key && phase !== "Ready"
        ? [{ place: metadata.name, phase, reason, message, bytes, totalBytes }]
        : [],
  );
}

function cacheDownload({ status }: Model): readonly Download[] {
  const { cache } = status ?? {};
  if (cache === undefined || cache.phase === "Ready" || cache.filledBy === "Pods") return [];
  const { claimName: place, phase, message, bytes = 0, totalBytes } = cache;
  return [{ place, phase, message, bytes, totalBytes }];
}

function modelAttention(model: Model, downloads: readonly Download[]): Attention | undefined {
  if (isBeingDeleted(model)) return undefined;
  const { namespace, name } = model.metadata;
  const finding = modelFinding(model) ?? failedPrefetch(downloads);
  return finding && attentionOf(finding, { namespace, model: name });
}

function modelFinding({ status }: Model): Finding | undefined {
  const { phase, reason = "", message = "", conditions } = status ?? {};
  const level = phase === "Ready" ? "warn" : "bad";
  const degraded = conditionFinding(conditions, { type: "Degraded", bad: "True", level });
  if (degraded !== undefined) return degraded;
  if (phase === "Failed")
    return { level, reason, message, since: getCondition(conditions, "Ready")?.lastTransitionTime };
  for (const type of ["ModelTransferHealthy", "SourceChecked"]) {
    const found = conditionFinding(conditions, { type, bad: "False", level: "warn" });
    if (found !== undefined) return found;
  }
  return undefined;
}

function failedPrefetch(downloads: readonly Download[]): Finding | undefined {
  const failed = downloads.find(({ phase }) => phase === "Failed");
  if (failed === undefined) return undefined;
  const { place, reason = "", message = "" } = failed;
  return { level: "warn", reason, message: `${place}: ${message}` };
}

function modelState(model: Model, downloads: readonly Download[]): StateWord {
  if (isBeingDeleted(model)) return { word: "Deleting", level: "busy" };
  const { phase = "Pending", reason, conditions } = model.status ?? {};
  if (phase === "Failed") return { word: "Failed", level: "bad" };
  const active = downloads.filter(({ phase }) => phase === "Downloading");
  if (active.length > 0) return { word: downloadWord("Downloading", active), level: "busy" };
  if (isConditionTrue(conditions, "Degraded"))
    return { word: "Degraded", level: phase === "Ready" ? "warn" : "bad" };
  if (phase === "Ready") return { word: "Ready", level: "ok" };
  return { word: phase, level: reason === "ReadByHost" ? "idle" : "busy" };
}
