/** Reconciles one Model: downloads it to a volume if needed, inspects its source when due, and writes its status. */

import { getCondition } from "../../src/api/conditions.ts";
import { describeError } from "../../src/api/errors.ts";
import { MANAGER_CONTROLLER } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { MODELS } from "../../src/api/kinds.ts";
import { isBeingDeleted } from "../../src/api/metadata.ts";
import type { Model, ModelStatus } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { revisionContentOf } from "../../src/capacity/template.ts";
import { SourceFailure } from "../../src/hub/failure.ts";
import {
  createInspectSource,
  createMarkSource,
  type InspectSource,
  type MarkSource,
  withinMs,
} from "../../src/hub/inspect/inspect.ts";
import type { RecordEvent } from "../../src/kube/event/events.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import type { KubeClient, Reflector } from "../../src/kube/types.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { truncate } from "../../src/util/text.ts";
import { createRejectionRetries } from "../frame/apply/retries.ts";
import type { ModelBenchmarks } from "../frame/option.ts";
import type { ControllerPorts } from "../frame/ports.ts";
import { modelKeyOf, soonest } from "../frame/service/path.ts";
import type { WatchedPaths } from "../frame/watches/contract.ts";
import { reportOn } from "../frame/watches/events.ts";
import {
  type DesiredCache,
  desiredCacheOf,
  desiredCacheOnHosts,
} from "../pods/workload/cache-eligibility.ts";
import type { CacheSettings } from "../pods/workload/contract.ts";
import type { CacheState } from "./cache/plan.ts";
import { type CachePorts, reconcileCache } from "./cache/reconcile.ts";
import type { Downloads } from "./cache/watches.ts";
import { inspectSettings, type ModelConfig } from "./config.ts";
import { planModelStatus } from "./plan.ts";
import { PREFETCHED } from "./prefetch.ts";
import { classifyModel, type Task } from "./source/classify.ts";
import { readCredentials, secretVersionOf } from "./source/credentials.ts";
import {
  firstRecord,
  type InspectionRecord,
  type InspectionResult,
  isInspected,
  isInspectionDue,
  recordFor,
  recordInspection,
  waitsForSecret,
} from "./source/inspections.ts";
import { pinnedOf } from "./source/pin.ts";

export interface ModelReconcilerPorts {
  readonly client: KubeClient;
  readonly models: Pick<Reflector<Model>, "get">;
  readonly hosts: Pick<Reflector<Host>, "list">;
  /** Services that name the Model as weights, draft or adapter. */
  readonly servicesOf: (model: string) => readonly InferenceService[];
  readonly downloads: Downloads;
  readonly benchmarkOf?: (model: string) => ModelBenchmarks | undefined;
  readonly settings: CacheSettings & Pick<ModelConfig, "lookMs" | "sourceCheckSeconds"> & WatchedPaths;
  readonly inspect: InspectSource;
  readonly mark: MarkSource;
  readonly record: RecordEvent;
  readonly clock: Clock;
  readonly log: Log;
  /** Returns a number in [0, 1) that spreads retries. */
  readonly random?: () => number;
}

export interface ModelPassPorts extends ControllerPorts, Pick<ModelReconcilerPorts, "benchmarkOf"> {
  readonly downloads: Downloads;
}

export type ReconcileModel = (key: string, signal: AbortSignal) => Promise<Recheck | undefined>;

/** Creates the pass over Models from the controller's configuration. */
export function createModelPass(
  config: ModelConfig & WatchedPaths & Pick<CacheSettings, "proxyVariables">,
): (ports: ModelPassPorts) => ReconcileModel {
  const inspect = createInspectSource(inspectSettings(config));
  const mark = createMarkSource(inspectSettings(config));
  return ({ watches: { models, hosts, servicesOfModel }, ...ports }) =>
    createModelReconciler({
      ...ports,
      models,
      hosts,
      inspect,
      mark,
      settings: config,
      servicesOf: servicesOfModel.of,
    });
}

/** Creates the pass, which remembers earlier inspections in memory. */
export function createModelReconciler(ports: ModelReconcilerPorts): ReconcileModel {
  const records = new Map<string, InspectionRecord>();
  const retries = createRejectionRetries();
  // Secrets are not watched, so a Secret that must change is read periodically.
  const secretReads = createRejectionRetries();
  return async (key, signal) => {
    const model = ports.models.get(key);
    if (model === undefined || isBeingDeleted(model)) {
      records.delete(key);
      retries.forget(key);
      secretReads.forget(key);
      ports.downloads.follow(key, undefined);
      return undefined;
    }
    const mainOf = (service: InferenceService) => ports.models.get(modelKeyOf(service));
    const desired = ports.settings.hostsOnly
      ? desiredCacheOnHosts(model, ports.servicesOf(key), mainOf)
      : desiredCacheOf(model, ports.servicesOf(key), ports.settings, mainOf);
    const cached = await cache({ ...ports, retries }, model, desired);
    const task = classifyModel(model, desired, cached && fillerIn(cached.state));
    const observed = { task, cache: cached?.state };
    const { written, record } =
      task.at === "remote"
        ? await inspectIfDue(ports, model, { ...observed, task, record: records.get(key) }, signal)
        : { written: model, record: undefined };
    if (record === undefined) records.delete(key);
    else records.set(key, record);
    await writeStatus(ports, written, { ...observed, record });
    const nowMs = ports.clock.monotonicMs();
    const nextMs = record?.nextAtMs === undefined ? undefined : record.nextAtMs - nowMs;
    const needsSecret = waitsForSecret(model, record) || cached?.waitsForSecret === true;
    return soonest([
      nextMs === undefined ? undefined : Math.max(0, nextMs),
      secretReads.note(key, needsSecret, nowMs),
      cached?.recheckAfterMs,
    ]);
  };
}

async function inspectIfDue(
  ports: ModelReconcilerPorts,
  model: Model,
  observed: Observed & { readonly task: Extract<Task, { at: "remote" }> },
  signal: AbortSignal,
): Promise<{ readonly written: Model; readonly record: InspectionRecord | undefined }> {
  const { clock, settings, random = Math.random } = ports;
  const { task } = observed;
  const checkMs = task.isWatched ? settings.sourceCheckSeconds * 1_000 : undefined;
  const before = recordFor(model, observed.record);
  const isUnscheduled = checkMs !== undefined && before?.nextAtMs === undefined;
  const last = isUnscheduled ? firstRecord(model, checkMs, clock.monotonicMs(), random()) : before;
  const isDue = isInspectionDue(model, last, clock.monotonicMs());
  if (!isDue && !waitsForSecret(model, last)) return { written: model, record: last };
  // Read before the inspection uses the Secret, so that a later change is not missed.
  const secretVersion = await secretVersionOf(ports.client, model);
  if (!isDue && secretVersion === last?.secretVersion) return { written: model, record: last };
  const written = await writeStatus(ports, model, { ...observed, record: last });
  const result = await inspect(ports, model, task, signal);
  const moment = { nowMs: clock.monotonicMs(), random: random(), checkMs };
  return { written, record: { ...recordInspection(model, last, result, moment), secretVersion } };
}

function fillerIn({ isUndecided, status }: CacheState): "Job" | "Pods" | "undecided" | undefined {
  return isUndecided === true ? "undecided" : status.filledBy;
}

/** Undefined if the Model needs no volume. */
async function cache(
  ports: ModelReconcilerPorts & Pick<CachePorts, "retries">,
  model: Model,
  desired: DesiredCache,
) {
  if (desired.at === "volume") {
    const { name } = model.metadata;
    const services = ports.servicesOf(keyOf(model.metadata));
    const isBeside = services.some(({ spec }) => mainModelOf(spec) !== name);
    return reconcileCache(ports, model, desired, { revision: pinnedOf(model)?.revision, isBeside });
  }
  ports.retries.forget(keyOf(model.metadata));
  ports.downloads.follow(keyOf(model.metadata), undefined);
  return undefined;
}

async function inspect(
  ports: ModelReconcilerPorts,
  model: Model,
  { source, isWatched }: Extract<Task, { at: "remote" }>,
  signal: AbortSignal,
): Promise<InspectionResult> {
  const { client, log, settings } = ports;
  const { namespace, name } = model.metadata;
  const read = async (within: AbortSignal): Promise<InspectionResult> => {
    const credentials = await readCredentials(client, model);
    const { files, ignorePatterns, mmproj, format, quantization } = model.spec;
    const request = {
      source,
      selector: { files, ignorePatterns, mmproj, format, quantization },
      credentials,
      signal: within,
    };
    if (isWatched) return check(ports, model, request);
    const { revision } = pinnedOf(model) ?? {};
    return { at: "found", found: await ports.inspect({ ...request, revision }) };
  };
  try {
    return await withinMs(settings.lookMs, signal, read);
  } catch (error) {
    if (!(error instanceof SourceFailure)) throw error;
    const { error: reason, isTransient, retryAfterMs } = error;
    log.warn({ model: `${namespace}/${name}`, code: reason.code, err: error }, "cannot read the source");
    return { at: "failed", code: reason.code, message: describeError(reason), isTransient, retryAfterMs };
  }
}

/** Reads headers only of content that is not pinned yet, and accepts them only if the content is unchanged afterwards. */
async function check(
  { inspect: inspectSource, mark: markSource, clock }: ModelReconcilerPorts,
  model: Model,
  request: Parameters<MarkSource>[0],
): Promise<InspectionResult> {
  const pinned = pinnedOf(model);
  const checkedAt = () => isoSeconds(clock.nowMs());
  let mark = await markSource(request);
  const isSame = isInspected(model) && mark.changeMarker === pinned?.changeMarker;
  const isPinDeleted =
    isSame && (await isCommitDeleted(markSource, request, pinned?.revision, mark.revision));
  if (isSame && !isPinDeleted) return { at: "unchanged", checkedAt: checkedAt() };
  for (let triesLeft = 1; ; triesLeft -= 1) {
    const found = await inspectSource({ ...request, revision: mark.revision });
    const after = await markSource(request);
    if (after.changeMarker === mark.changeMarker)
      return { at: "found", found, watched: { at: "marked", mark, checkedAt: checkedAt(), isPinDeleted } };
    mark = after;
    if (triesLeft === 0 && isInspected(model) && pinned?.changeMarker !== undefined)
      return { at: "unstable" };
    if (triesLeft === 0) return { at: "found", found, watched: { at: "unstable" } };
  }
}

/** True if the source no longer has the pinned commit, for example because its branch was rewritten. */
async function isCommitDeleted(
  markSource: MarkSource,
  request: Parameters<MarkSource>[0],
  pinned: string | undefined,
  head: string | undefined,
): Promise<boolean> {
  if (pinned === undefined || pinned === head) return false;
  try {
    await markSource({ ...request, revision: pinned });
    return false;
  } catch (error) {
    if (error instanceof SourceFailure && error.error.code === "SourceNotFound") return true;
    throw error;
  }
}

interface Observed {
  readonly task: Task;
  readonly record: InspectionRecord | undefined;
  readonly cache: CacheState | undefined;
}

/** Writes the status if it differs, and reports each change once. Returns the written Model. */
async function writeStatus(
  ports: ModelReconcilerPorts,
  model: Model,
  { task, record, cache }: Observed,
): Promise<Model> {
  const nowIso = isoSeconds(ports.clock.nowMs());
  const observation = {
    model,
    hosts: ports.hosts.list(),
    task,
    inspection: record?.result,
    changes: record?.changes ?? 0,
    services: ports.servicesOf(keyOf(model.metadata)),
    benchmark: ports.benchmarkOf?.(keyOf(model.metadata)),
    cache,
  };
  const status = planModelStatus(observation, nowIso);
  const { name, namespace, uid } = model.metadata;
  const object = {
    apiVersion: `${MODELS.group}/${MODELS.version}`,
    kind: MODELS.kind,
    metadata: { name, namespace, uid },
    status,
  };
  // Applies only the status, because the spec belongs to the user.
  const applied = await ports.client.apply(MODELS, object as unknown as Model, {
    manager: MANAGER_CONTROLLER,
    subresource: "status",
    current: model,
  });
  if (applied.ok) {
    if (applied.value.sent) report(ports, model, status);
    return applied.value.object;
  }
  if (applied.error.kind === "notFound" || applied.error.kind === "gone" || applied.error.kind === "conflict")
    return model;
  throw new Error(`status of Model ${namespace}/${name}: ${applied.error.message}`);
}

function report({ record, log }: ModelReconcilerPorts, model: Model, status: ModelStatus): void {
  const { phase = "Pending", reason = phase, message = "" } = status;
  const honored = getCondition(status.conditions, "SpecHonored");
  const wasHonored = getCondition(model.status?.conditions, "SpecHonored");
  if (honored?.status === "False" && honored.message !== wasHonored?.message) {
    const { reason: code, message: note } = honored;
    reportOn(record, MODELS, model, { type: "Warning", reason: code, action: "ReadSpec", note });
  }
  const prefetched = getCondition(status.conditions, PREFETCHED);
  if (
    prefetched !== undefined &&
    prefetched.reason !== getCondition(model.status?.conditions, PREFETCHED)?.reason
  )
    reportOn(record, MODELS, model, {
      type: prefetched.status === "False" ? "Warning" : "Normal",
      reason: prefetched.reason,
      action: "Prefetch",
      note: truncate(prefetched.message, 1000),
    });
  reportChange({ record, log }, model, status);
  if (model.status?.reason === reason && model.status.observedGeneration === status.observedGeneration)
    return;
  const { name, namespace } = model.metadata;
  log.info({ model: `${namespace}/${name}`, phase, reason }, "phase changed");
  if (reason === "ReadingSource") return;
  const isWaiting = getCondition(status.conditions, "Degraded")?.status !== "True";
  const type = phase === "Ready" || isWaiting ? "Normal" : "Warning";
  reportOn(record, MODELS, model, { type, reason, action: "ReadSource", note: truncate(message, 1000) });
}

/** Reports new content of the source, and failed checks. */
function reportChange(
  { record, log }: Pick<ModelReconcilerPorts, "record" | "log">,
  model: Model,
  { pinned, shortRevision, conditions }: ModelStatus,
): void {
  const before = pinnedOf(model);
  const hasChanged =
    before?.changeMarker !== undefined &&
    pinned?.key === before.key &&
    revisionContentOf(pinned) !== revisionContentOf(before);
  const { name, namespace } = model.metadata;
  if (hasChanged) {
    const what = pinned.changeMarker === before.changeMarker ? "another history" : "other content";
    const note = `the source has ${what}: ${model.status?.shortRevision} -> ${shortRevision}; services that use it get a new revision`;
    log.info({ model: `${namespace}/${name}`, revision: shortRevision }, "source changed");
    reportOn(record, MODELS, model, {
      type: "Normal",
      reason: "SourceContentChanged",
      action: "CheckSource",
      note,
    });
  }
  const check = getCondition(conditions, "SourceChecked");
  const wasChecked = getCondition(model.status?.conditions, "SourceChecked");
  if (check?.status !== "False" || check.reason === wasChecked?.reason) return;
  const note = truncate(check.message, 1000);
  reportOn(record, MODELS, model, { type: "Warning", reason: check.reason, action: "CheckSource", note });
}
