/** From a Model and what was found to its status. Pure and total. */
import { type ConditionUpdate, removeCondition, setCondition } from "../../src/api/conditions.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { type GgufFacts, ggufSchema } from "../../src/api/fields/gguf.ts";
import { DEFAULT_MODEL_ACCELERATOR } from "../../src/api/fields/hardware.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model, ModelStatus } from "../../src/api/model.ts";
import { isPrefetched } from "../../src/capacity/prefetch.ts";
import { candidateRuntimes } from "../../src/capacity/runtime-choice.ts";
import { contentOf, shortRevision } from "../../src/capacity/template.ts";
import { isServedOnHosts } from "../../src/engines/registry.ts";
import type { Inspected } from "../../src/hub/inspect/inspect.ts";
import type { Fetched } from "../../src/models/fetch-result.ts";
import type { GgufSummary } from "../../src/models/gguf/summary.ts";
import { defaultFormat, fileNameOf, parseSource } from "../../src/models/source/parse.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { truncate } from "../../src/util/text.ts";
import { cacheKeyOf } from "../workload/model-cache.ts";
import type { CacheState } from "./cache/plan.ts";
import { copiesOf } from "./copies.ts";
import { assessPrefetch } from "./prefetch.ts";
import type { Task } from "./source/classify.ts";
import type { InspectionResult } from "./source/inspections.ts";
import { type ObservedSource, pinnedOf, planPin } from "./source/pin.ts";

export interface ModelObservation extends ObservedSource {
  readonly hosts: readonly Host[];
  /** Checks in a row that found other content than the one before. */
  readonly changes?: number;
  /** Of its volume, where it has one. */
  readonly cache?: CacheState | undefined;
  /** Those that name it, as weights, draft or adapter. */
  readonly services?: readonly InferenceService[];
}

interface Verdict {
  readonly phase: NonNullable<ModelStatus["phase"]>;
  readonly reason: string;
  readonly message: string;
  readonly available: boolean | "Unknown";
  readonly progressing: boolean;
  readonly degraded?: { readonly reason: string; readonly message: string } | undefined;
  readonly facts: Partial<ModelStatus>;
}

/** The complete status, ready to be applied. */
export function planModelStatus(observation: ModelObservation, nowIso: string): ModelStatus {
  const { model, hosts, cache } = observation;
  const verdict = withoutRuntime(observation, judge(observation));
  const { reason, message, degraded } = verdict;
  const observedGeneration = model.metadata.generation;
  const ignored = unhonored(observation);
  const honored =
    ignored.length === 0
      ? { reason: "AllFieldsHonored", message: "" }
      : { reason: "FieldsNotHonored", message: `ignored in this version: ${ignored.join(", ")}` };
  const states = [
    { type: "Ready", status: verdict.available, reason, message },
    { type: "SpecHonored", status: ignored.length === 0, ...honored },
    { type: "Available", status: verdict.available, reason, message },
    { type: "Progressing", status: verdict.progressing, reason, message },
    { type: "Degraded", status: degraded !== undefined, reason, message, ...degraded },
  ];
  const own = states.reduce(
    (all, { status, ...rest }) =>
      setCondition(all, { ...rest, status: conditionStatus(status), observedGeneration }, nowIso),
    withCheck(observation, withTransfer(model, cache, nowIso), nowIso),
  );
  const { prefetch, conditions } = assessPrefetch(model, hosts, own, nowIso);
  const copies = copiesOf(model, hosts, verdict.facts.sha256);
  const pinned = planPin(observation);
  return {
    phase: verdict.phase,
    reason,
    message,
    observedGeneration,
    ...verdict.facts,
    ...(cache === undefined ? {} : { cache: cache.status }),
    ...(pinned === undefined ? {} : { pinned, ...shownOf(observation, pinned, nowIso) }),
    ...(copies.length === 0 ? {} : { hosts: copies }),
    ...(prefetch === undefined ? {} : { prefetch }),
    conditions,
  };
}

function conditionStatus(holds: boolean | "Unknown"): ConditionUpdate["status"] {
  if (holds === "Unknown") return holds;
  return holds ? "True" : "False";
}

/** The condition of the download; removed where none is wanted any more. */
function withTransfer({ status, metadata }: Model, cache: CacheState | undefined, nowIso: string) {
  const type = "ModelTransferHealthy";
  if (cache === undefined) return removeCondition(status?.conditions, type);
  const { phase, reason, message } = cache.status;
  const { generation: observedGeneration } = metadata;
  if (cache.trouble !== undefined)
    return setCondition(
      status?.conditions,
      {
        type,
        status: "False",
        reason: cache.trouble.code,
        message: cache.trouble.message,
        observedGeneration,
      },
      nowIso,
    );
  const update =
    phase === "Ready"
      ? { status: "True" as const, reason: "ModelTransferSucceeded", message }
      : { status: "Unknown" as const, reason, message: cache.status.filledBy === "Pods" ? message : "" };
  return setCondition(status?.conditions, { type, ...update, observedGeneration }, nowIso);
}

/** Short, for listings, and since when. */
function shownOf(
  { model, inspection }: ModelObservation,
  pinned: NonNullable<ModelStatus["pinned"]>,
  nowIso: string,
): Partial<ModelStatus> {
  const full = contentOf(pinned);
  const short = full === undefined ? {} : { shortRevision: shortRevision(full) };
  const { changeMarker } = pinned;
  if (changeMarker === undefined) return short;
  const { checkedAt: before, changedAt } = model.status ?? {};
  const isSame = pinnedOf(model)?.changeMarker === changeMarker;
  const checkedAt = checkedAtOf(inspection) ?? before;
  return {
    ...short,
    ...(checkedAt === undefined ? {} : { checkedAt }),
    changedAt: isSame && changedAt !== undefined ? changedAt : nowIso,
  };
}

function checkedAtOf(inspection: InspectionResult | undefined): string | undefined {
  if (inspection?.at === "unchanged") return inspection.checkedAt;
  return inspection?.at === "found" && inspection.watched?.at === "marked"
    ? inspection.watched.checkedAt
    : undefined;
}

/** Says whether the last check of a watched source succeeded; what is pinned serves in any case. */
function withCheck(
  { model, task, inspection, changes = 0 }: ModelObservation,
  conditions: ModelStatus["conditions"],
  nowIso: string,
): ModelStatus["conditions"] {
  const type = "SourceChecked";
  if (task.at !== "remote" || !task.isWatched) return removeCondition(conditions, type);
  const observedGeneration = model.metadata.generation;
  const set = (status: "True" | "False", reason: string, message: string) =>
    setCondition(conditions, { type, status, reason, message, observedGeneration }, nowIso);
  if (inspection === undefined) return conditions;
  if (inspection.at === "failed") return set("False", inspection.code, inspection.message);
  if (inspection.at === "unstable" || (inspection.at === "found" && inspection.watched?.at === "unstable"))
    return set("False", "SourceUnstable", UNSTABLE);
  if (changes < MANY_CHANGES) return set("True", "SourceChecked", "");
  const message = `the source had other content at each of the last ${changes} checks; it is checked less often until a check finds the same content`;
  return set("True", "SourceChangesOften", message);
}

const UNSTABLE =
  "the source gives another ETag, Last-Modified or size at each request; nothing is rolled out until it gives the same answer twice; use a server with stable ETags, or refreshPolicy IfNotPresent";
const MANY_CHANGES = 3;

/** Fields that only a download Job reads, and a policy for content of which only one version exists. */
function unhonored({ model, task, cache }: ModelObservation): string[] {
  const { prefetch, prefetchHosts, prefetchTolerations = [], resources = {}, refreshPolicy } = model.spec;
  const asksPrefetch = prefetch || prefetchHosts !== undefined;
  const isOnChange = refreshPolicy === "OnChange";
  if (cache !== undefined)
    return [
      ...(isOnChange ? ["spec.refreshPolicy (a volume keeps what was downloaded)"] : []),
      ...(cache.status.filledBy === "Pods" && prefetchTolerations.length > 0
        ? ["spec.prefetchTolerations (the pods of the services download the weights)"]
        : []),
    ];
  return [
    ...(isOnChange && task.at === "onHost" ? [`spec.refreshPolicy (${task.unwatched})`] : []),
    ...(asksPrefetch && !isPrefetched(model) ? ["spec.prefetch"] : []),
    ...(prefetchTolerations.length > 0 ? ["spec.prefetchTolerations"] : []),
    ...(Object.keys(resources).length > 0 ? ["spec.resources"] : []),
  ];
}

function judge(observation: ModelObservation): Verdict {
  const { model, task, cache } = observation;
  switch (task.at) {
    case "refused":
      return failed(task.code, task.message, false);
    case "onHost":
      return task.reason === "ReadByHost"
        ? onHostDisk(observation, task.message)
        : ready(task.reason, task.message, onHostFacts(model));
    case "onVolume":
      return cache === undefined ? waiting : onVolume(model, cache);
    case "remote":
      return withCacheTrouble(judgeRemote(observation, task), cache);
    default:
      return task satisfies never;
  }
}

function judgeRemote(
  { model, inspection, isKnown }: ModelObservation,
  task: Extract<Task, { at: "remote" }>,
): Verdict {
  if (inspection?.at === "found")
    return ready("SourceResolved", task.message, foundFacts(model, inspection.found));
  if (isKnown) return withTrouble(ready("SourceResolved", task.message, knownFacts(model)), inspection);
  // The other results are about what is known.
  return inspection?.at === "failed"
    ? failed(inspection.code, inspection.message, inspection.isTransient)
    : waiting;
}

/** Reported by the replicas of a service for a file of the host that cannot be served. */
const FILE_TROUBLES = ["SourceNotFound", "FileUnreadable", "SourceNotAllowed"];

/**
 * Only hosts can look for the file, and they do once a replica is to serve it: until a service has served it nothing is known.
 * Services may use such a Model all the same.
 */
function onHostDisk({ model, services = [] }: ModelObservation, message: string): Verdict {
  const { reason, phase, observedGeneration } = model.status ?? {};
  const isSeen =
    phase === "Ready" && reason === "FileServed" && observedGeneration === model.metadata.generation;
  const serving = services.find(({ status }) => (status?.readyReplicas ?? 0) > 0);
  const facts = onHostFacts(model);
  if (serving !== undefined || isSeen)
    return ready("FileServed", "a host has served the file from its own disk", facts);
  const failing = services.find(
    ({ spec, status }) =>
      spec.modelRef === model.metadata.name && FILE_TROUBLES.includes(status?.reason ?? ""),
  );
  const { reason: why = "", message: what = "" } = failing?.status ?? {};
  return {
    phase: "Pending",
    reason: "ReadByHost",
    facts,
    available: "Unknown",
    progressing: false,
    message: `${message}; the file is not checked before a replica is to serve it`,
    degraded: failing && {
      reason: why,
      message: `InferenceService ${failing.metadata.name}: ${truncate(what, 2_000)}`,
    },
  };
}

/** Pods that fill a volume need its claim. */
function withCacheTrouble(verdict: Verdict, cache: CacheState | undefined): Verdict {
  const { trouble, status } = cache ?? {};
  if (trouble === undefined || status?.filledBy !== "Pods") return verdict;
  return { ...verdict, degraded: { reason: trouble.code, message: trouble.message } };
}

/** Ready once the files are complete and verified; the Job's result has the facts of the header. */
function onVolume(model: Model, { status, trouble, fetched }: CacheState): Verdict {
  const { phase, reason, message } = status;
  const isSame = model.status?.cache?.key !== undefined && model.status.cache.key === status.key;
  return {
    phase,
    reason,
    message,
    available: phase === "Ready",
    progressing: phase === "Downloading" || phase === "Pending",
    degraded: trouble && { reason: trouble.code, message: trouble.message },
    facts: fetched === undefined ? (isSame ? knownFacts(model) : {}) : fetchedFacts(model, fetched),
  };
}

function fetchedFacts(model: Model, found: Fetched): Partial<ModelStatus> {
  const { files, sha256, format, revision, weightsBytes, gguf, sizeBytes } = found;
  return {
    cacheKey: cacheKeyOf(model),
    files: [...files],
    ...sizes(sizeBytes),
    ...(weightsBytes === undefined ? {} : { weightsBytes }),
    ...(sha256 === undefined ? {} : { sha256 }),
    ...(format === undefined ? {} : { format }),
    ...(revision === undefined ? {} : { revision }),
    ...(gguf === undefined ? {} : { gguf: ggufSchema.parse(gguf) }),
  };
}

/** A Model for hosts in a format that none can run is not Ready, however well its source was read. */
function withoutRuntime({ model: { spec }, cache }: ModelObservation, verdict: Verdict): Verdict {
  const isForHosts = (spec.hardware?.accelerator ?? DEFAULT_MODEL_ACCELERATOR) === DEFAULT_MODEL_ACCELERATOR;
  if (!isForHosts || cache !== undefined) return verdict;
  const format = spec.format ?? verdict.facts.format;
  if (verdict.available === false || format === undefined || isServedOnHosts(format)) return verdict;
  try {
    candidateRuntimes(undefined, format, "chat");
    return verdict;
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return { ...failed(error.code, error.message, false), facts: verdict.facts };
  }
}

const waiting: Verdict = {
  phase: "Pending",
  reason: "ReadingSource",
  message: "reading the source",
  available: false,
  progressing: true,
  facts: {},
};

function ready(reason: string, message: string, facts: Partial<ModelStatus>): Verdict {
  return { phase: "Ready", reason, message, available: true, progressing: false, facts };
}

/** A transient failure is Pending and retried; a permanent one is Failed. */
function failed(reason: string, message: string, isTransient: boolean): Verdict {
  const phase = isTransient ? "Pending" : "Failed";
  return {
    phase,
    reason,
    message,
    available: false,
    progressing: isTransient,
    degraded: { reason, message },
    facts: {},
  };
}

/** A source that cannot be read again takes nothing away from what is known and stored. */
function withTrouble(verdict: Verdict, inspection: InspectionResult | undefined): Verdict {
  return inspection?.at === "failed"
    ? { ...verdict, degraded: { reason: inspection.code, message: inspection.message } }
    : verdict;
}

function foundFacts(model: Model, found: Inspected): Partial<ModelStatus> {
  const sha256 = model.spec.sha256?.toLowerCase() ?? found.sha256;
  const weightsBytes = found.gguf?.weightsBytes;
  return {
    cacheKey: cacheKeyOf(model),
    files: [...found.files],
    ...sizes(found.sizeBytes),
    ...(weightsBytes === undefined ? {} : { weightsBytes }),
    ...(sha256 === undefined ? {} : { sha256 }),
    ...(found.format === undefined ? {} : { format: found.format }),
    ...(found.revision === undefined ? {} : { revision: found.revision.slice(0, 256) }),
    ...(found.gguf === undefined ? {} : { gguf: ggufFacts(found.gguf) }),
  };
}

function onHostFacts(model: Model): Partial<ModelStatus> {
  const source = parseSource(model.spec.source);
  const name = fileNameOf(source);
  const format = model.spec.format ?? defaultFormat(source);
  return {
    cacheKey: cacheKeyOf(model),
    files: name === undefined ? undefined : [name],
    format,
    sha256: model.spec.sha256 === undefined ? undefined : model.spec.sha256.toLowerCase(),
    ...sizes(copySize(model)),
  };
}

function copySize({ status }: Model): number | undefined {
  return status?.hosts?.find(({ sizeBytes }) => sizeBytes !== undefined)?.sizeBytes;
}

function knownFacts({ status = {} }: Model): Partial<ModelStatus> {
  const {
    phase: _,
    reason: __,
    message: ___,
    conditions: ____,
    hosts: _____,
    observedGeneration: ______,
    pinned: _______,
    cache: ________,
    prefetch: _________,
    ...facts
  } = status;
  return facts;
}

function sizes(sizeBytes: number | undefined): Partial<ModelStatus> {
  return sizeBytes === undefined ? {} : { sizeBytes, size: formatBytes(sizeBytes) };
}

/** The part of the summary that status has fields for. */
function ggufFacts(summary: GgufSummary): GgufFacts {
  return ggufSchema.parse(summary);
}
