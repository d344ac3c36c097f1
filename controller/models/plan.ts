/** Plans the status of a Model from its spec and the inspection of its source. Pure and total. */
import { type ConditionUpdate, removeCondition, setCondition } from "../../src/api/conditions.ts";
import { describeError, MetalbridgeError } from "../../src/api/errors.ts";
import { ggufSchema } from "../../src/api/fields/gguf.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import type { Model, ModelStatus } from "../../src/api/model.ts";
import { isPrefetched } from "../../src/capacity/prefetch.ts";
import { quantizationContradiction } from "../../src/capacity/quantization-kernels.ts";
import { candidateRuntimes } from "../../src/capacity/runtime-choice.ts";
import { revisionContentOf, shortRevision } from "../../src/capacity/template.ts";
import { isServedOnHosts } from "../../src/engines/registry.ts";
import type { Inspected } from "../../src/hub/inspect/inspect.ts";
import { checksumProblem } from "../../src/hub/inspect/resolve.ts";
import type { Fetched } from "../../src/models/fetch-result.ts";
import { defaultFormat, fileNameOf, parseSource, publicSource } from "../../src/models/source/parse.ts";
import { formatBytes } from "../../src/util/bytes.ts";
import { truncate } from "../../src/util/text.ts";
import { BENCHMARKED, type ModelBenchmarks } from "../frame/option.ts";
import { isForHosts } from "../pods/workload/cache-eligibility.ts";
import { cacheKeyOf } from "../pods/workload/model-cache.ts";
import type { CacheState } from "./cache/plan.ts";
import { assessPrefetch } from "./prefetch.ts";
import type { Task } from "./source/classify.ts";
import { type InspectionResult, isInspected } from "./source/inspections.ts";
import { type ObservedSource, pinnedOf, planPin } from "./source/pin.ts";

export interface ModelObservation extends ObservedSource {
  readonly hosts: readonly Host[];
  /** Consecutive checks that found other content than the check before. */
  readonly changes?: number;
  /** State of the Model's volume; undefined if it has none. */
  readonly cache?: CacheState;
  /** Undefined until the benchmarks were planned: the status stays as it is. */
  readonly benchmark?: ModelBenchmarks | undefined;
  /** Services that name the Model as weights, draft or adapter. */
  readonly services?: readonly InferenceService[];
}

interface Verdict {
  readonly phase: NonNullable<ModelStatus["phase"]>;
  readonly reason: string;
  readonly message: string;
  readonly available: boolean | "Unknown";
  readonly progressing: boolean;
  readonly degraded?: { readonly reason: string; readonly message: string };
  readonly facts: Partial<ModelStatus>;
}

/** The complete status, ready to be applied. */
export function planModelStatus(observation: ModelObservation, nowIso: string): ModelStatus {
  const { model, hosts, cache } = observation;
  const judged = withoutPods(observation, requireRuntime(observation, judge(observation)));
  const verdict = withContradiction(model, judged);
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
    withBenchmark(observation, withCheck(observation, withTransfer(model, cache, nowIso), nowIso), nowIso),
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
    cache: cache?.status,
    pinned,
    ...(pinned && revisionFields(observation, pinned, nowIso)),
    hosts: copies.length === 0 ? undefined : copies,
    prefetch,
    benchmarks: (observation.benchmark ?? model.status)?.benchmarks,
    conditions,
  };
}

function withBenchmark(
  { model, benchmark }: ModelObservation,
  conditions: ModelStatus["conditions"],
  nowIso: string,
): ModelStatus["conditions"] {
  if (benchmark === undefined) return conditions;
  const { condition } = benchmark;
  if (condition === undefined) return removeCondition(conditions, BENCHMARKED);
  const observedGeneration = model.metadata.generation;
  return setCondition(conditions, { type: BENCHMARKED, ...condition, observedGeneration }, nowIso);
}

function conditionStatus(holds: boolean | "Unknown"): ConditionUpdate["status"] {
  if (holds === "Unknown") return holds;
  return holds ? "True" : "False";
}

/** Sets the condition of the download, or removes it if there is no download. */
function withTransfer({ status, metadata }: Model, cache: CacheState | undefined, nowIso: string) {
  const type = "ModelTransferHealthy";
  if (cache === undefined) return removeCondition(status?.conditions, type);
  const { phase, reason, message, filledBy } = cache.status;
  const { problem } = cache;
  const update =
    problem !== undefined
      ? { status: "False" as const, reason: problem.code, message: problem.message }
      : phase === "Ready"
        ? { status: "True" as const, reason: "ModelTransferSucceeded", message }
        : { status: "Unknown" as const, reason, message: filledBy === "Pods" ? message : "" };
  const observedGeneration = metadata.generation;
  return setCondition(status?.conditions, { type, ...update, observedGeneration }, nowIso);
}

/** The short revision for listings, and when the content was checked and changed. */
function revisionFields(
  { model, inspection }: ModelObservation,
  pinned: NonNullable<ModelStatus["pinned"]>,
  nowIso: string,
): Partial<ModelStatus> {
  const full = revisionContentOf(pinned);
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

/** Sets the condition for checks of a watched source. The pinned content is served in any case. */
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
  "the source returns another ETag, Last-Modified or size for each request; nothing is rolled out until two responses are equal; use a server with stable ETags, or refreshPolicy IfNotPresent";
const MANY_CHANGES = 3;

/** Fields that have no effect: those that only a download Job reads, and a refresh policy for content that cannot change. */
function unhonored({ model, task, cache }: ModelObservation): string[] {
  const { prefetch, prefetchHosts, prefetchTolerations = [], resources = {}, refreshPolicy } = model.spec;
  const asksPrefetch = prefetch || prefetchHosts !== undefined;
  const isOnChange = refreshPolicy === "OnChange";
  if (cache !== undefined)
    return [
      ...(isOnChange ? ["spec.refreshPolicy (the weights on a volume are not updated)"] : []),
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
        ? judgeHostFile(observation, task.message)
        : ready(task.reason, task.message, onHostFacts(model));
    case "onVolume":
      return cache === undefined ? waiting : onVolume(model, cache);
    case "remote":
      return withCache(model, judgeRemote(observation, task), cache);
    default:
      return task satisfies never;
  }
}

function judgeRemote(
  { model, inspection }: ModelObservation,
  task: Extract<Task, { at: "remote" }>,
): Verdict {
  if (inspection?.at === "found") {
    const { found } = inspection;
    const { sha256 } = model.spec;
    const problem = checksumProblem(found.files[0] ?? "", found.mainSha256, sha256);
    if (problem !== undefined) return failed(problem.code, describeError(problem), false);
    const isUnchecked = sha256 !== undefined && found.mainSha256 === undefined;
    const message = isUnchecked ? `${task.message}; ${UNCHECKED}` : task.message;
    return ready("SourceResolved", message, inspectedFacts(model, found));
  }
  if (isInspected(model)) {
    // The status has what an earlier controller has found out about the checksum.
    const isUnchecked = model.status?.message?.endsWith(UNCHECKED) === true;
    const message = isUnchecked ? `${task.message}; ${UNCHECKED}` : task.message;
    return withInspectionProblem(ready("SourceResolved", message, knownFacts(model)), inspection);
  }
  // All other results require facts that are already known.
  return inspection?.at === "failed"
    ? failed(inspection.code, inspection.message, inspection.isTransient)
    : waiting;
}

const UNCHECKED = "the source states no checksum, so spec.sha256 is verified after the download";

/** Reasons that a service reports if a host cannot serve a file from its disk. */
const FILE_PROBLEMS = ["SourceNotFound", "FileUnreadable", "SourceNotAllowed"];

const SERVED = {
  byHost: "a host has served the file from its own disk",
  byPod: "a pod has served the file from the disk of its node",
};

/**
 * Only a host can check the file, and it does so when a replica is about to serve it. Until then the Model is Pending, but
 * services may use it.
 */
function judgeHostFile({ model, services = [] }: ModelObservation, message: string): Verdict {
  const { reason, phase, observedGeneration, message: before } = model.status ?? {};
  const wasServed =
    phase === "Ready" && reason === "FileServed" && observedGeneration === model.metadata.generation;
  const serving = services.filter(({ status }) => (status?.readyReplicas ?? 0) > 0);
  const facts = onHostFacts(model);
  if (serving.some(({ status }) => status?.on !== "Pods")) return ready("FileServed", SERVED.byHost, facts);
  if (serving.length > 0) return ready("FileServed", SERVED.byPod, facts);
  if (wasServed) return ready("FileServed", before ?? SERVED.byHost, facts);
  const failing = services.find(
    ({ spec, status }) =>
      mainModelOf(spec) === model.metadata.name && FILE_PROBLEMS.includes(status?.reason ?? ""),
  );
  const { reason: failure = "", message: detail = "" } = failing?.status ?? {};
  return {
    phase: "Pending",
    reason: "ReadByHost",
    facts,
    available: "Unknown",
    progressing: false,
    message: `${message}; the file is checked when a replica is about to serve it`,
    degraded: failing && {
      reason: failure,
      message: `InferenceService ${failing.metadata.name}: ${truncate(detail, 2_000)}`,
    },
  };
}

/** A problem with a claim that pods fill degrades the Model. While it is not known what fills the claim, pods cannot use the Model. */
function withCache(model: Model, verdict: Verdict, cache: CacheState | undefined): Verdict {
  const { problem, status, isUndecided } = cache ?? {};
  if (cache !== undefined && isUndecided === true && verdict.available === true && !isForHosts(model))
    return { ...onVolume(model, cache), facts: verdict.facts };
  if (problem === undefined || status?.filledBy !== "Pods") return verdict;
  return { ...verdict, degraded: { reason: problem.code, message: problem.message } };
}

/** Ready once the files are complete and verified. The Job's result has the facts from the header. */
function onVolume(model: Model, { status, problem, fetched }: CacheState): Verdict {
  const { phase, reason, message } = status;
  const isSame = model.status?.cache?.key !== undefined && model.status.cache.key === status.key;
  return {
    phase,
    reason,
    message,
    available: phase === "Ready",
    progressing: phase === "Downloading" || phase === "Pending",
    degraded: problem && { reason: problem.code, message: problem.message },
    facts:
      fetched !== undefined
        ? sourceFacts(model, fetched)
        : isSame || isInspected(model)
          ? knownFacts(model)
          : {},
  };
}

/** Reports why pods cannot use the Model, unless hosts cannot either. */
function withoutPods({ task }: ModelObservation, verdict: Verdict): Verdict {
  const refusal = "notForPods" in task ? task.notForPods : undefined;
  if (refusal === undefined) return verdict;
  const message = `services in pods cannot use the Model: ${refusal.message}`;
  return { ...verdict, degraded: verdict.degraded ?? { reason: refusal.code, message } };
}

/** The Model stays usable: the files decide what engines load, spec.quantization which nodes pods get. */
function withContradiction({ spec }: Model, verdict: Verdict): Verdict {
  const message = quantizationContradiction({ spec, status: verdict.facts });
  if (message === undefined) return verdict;
  return { ...verdict, degraded: verdict.degraded ?? { reason: "QuantizationContradicted", message } };
}

/** Fails a Model for hosts whose format no host can run, even if its source was read. */
function requireRuntime({ model, cache }: ModelObservation, verdict: Verdict): Verdict {
  if (!isForHosts(model) || cache !== undefined) return verdict;
  const format = model.spec.format ?? verdict.facts.format;
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

/** A transient failure is Pending and retried; a permanent failure is Failed. */
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

/** If a source cannot be read again, the Model keeps its facts and is degraded. */
function withInspectionProblem(verdict: Verdict, inspection: InspectionResult | undefined): Verdict {
  return inspection?.at === "failed"
    ? { ...verdict, degraded: { reason: inspection.code, message: inspection.message } }
    : verdict;
}

function inspectedFacts(model: Model, found: Inspected): Partial<ModelStatus> {
  const sha256 = model.spec.sha256?.toLowerCase() ?? found.sha256;
  return sourceFacts(model, { ...found, sha256, weightsBytes: found.gguf?.weightsBytes });
}

function sourceFacts(
  model: Model,
  found: Pick<Inspected, "files" | "sizeBytes"> & Omit<Fetched, "code" | "file" | "files" | "sizeBytes">,
): Partial<ModelStatus> {
  const { files, sizeBytes, weightsBytes, quantization, sha256, format, revision, gguf } = found;
  return {
    cacheKey: cacheKeyOf(model),
    files: [...files],
    ...sizes(sizeBytes),
    weightsBytes,
    quantization,
    sha256,
    format,
    revision: revision?.slice(0, 256),
    // Drops the parts of the header's summary that the status has no fields for.
    gguf: gguf && ggufSchema.parse(gguf),
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
    sha256: model.spec.sha256?.toLowerCase(),
    ...sizes(model.status?.hosts?.find(({ sizeBytes }) => sizeBytes !== undefined)?.sizeBytes),
  };
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
    benchmarks: __________,
    ...facts
  } = status;
  return facts;
}

function sizes(sizeBytes: number | undefined): Partial<ModelStatus> {
  return sizeBytes === undefined ? {} : { sizeBytes, size: formatBytes(sizeBytes) };
}

const MAX_COPIES = 1000;

/** `sha256` of the main file selects the copy, because a repository may have several quantizations. */
function copiesOf({ spec }: Model, hosts: readonly Host[], sha256 = spec.sha256) {
  const required = sha256?.toLowerCase();
  const shown = publicSource(spec.source);
  return hosts
    .flatMap(({ metadata, status }) => {
      const copy = status?.models?.find(
        (one) => one.source === shown && (required === undefined || one.sha256?.toLowerCase() === required),
      );
      return copy ? [{ name: metadata.name, sizeBytes: copy.sizeBytes, sha256: copy.sha256 }] : [];
    })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .slice(0, MAX_COPIES);
}
