/** One pass over one Model: inspects its source when that is due, and writes what is known. */

import { getCondition } from "../../src/api/conditions.ts";
import { describeError } from "../../src/api/errors.ts";
import { MANAGER_CONTROLLER } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { MODELS } from "../../src/api/kinds.ts";
import type { Model, ModelStatus } from "../../src/api/model.ts";
import { SourceFailure } from "../../src/hub/failure.ts";
import { createInspectSource, type InspectSource } from "../../src/hub/inspect.ts";
import { isoSeconds } from "../../src/iso-seconds.ts";
import type { RecordEvent } from "../../src/kube/events.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import type { KubeClient, Reflector } from "../../src/kube/types.ts";
import type { Clock, Log } from "../../src/ports.ts";
import { truncate } from "../../src/text.ts";
import { reportOn } from "../cache/events.ts";
import type { ControllerPorts } from "../cache/ports.ts";
import { classifyModel, type Task } from "./classify.ts";
import { inspectSettings, type ModelConfig } from "./config.ts";
import { readSecretHeaders } from "./credentials.ts";
import {
  type InspectionRecord,
  type InspectionResult,
  isInspectionDue,
  isKnown,
  recordFor,
  recordInspection,
} from "./inspections.ts";
import { pinnedOf } from "./pin.ts";
import { planModelStatus } from "./plan.ts";

export interface ModelReconcilerPorts {
  readonly client: KubeClient;
  readonly models: Pick<Reflector<Model>, "get">;
  readonly hosts: Pick<Reflector<Host>, "list">;
  readonly inspect: InspectSource;
  readonly record: RecordEvent;
  readonly clock: Clock;
  readonly log: Log;
  /** In [0, 1): spreads retries. */
  readonly random?: () => number;
}

export type ReconcileModel = (key: string, signal: AbortSignal) => Promise<Recheck | undefined>;

/** For `createModelPass` of the controller. */
export function createModelPass(config: ModelConfig): (ports: ControllerPorts) => ReconcileModel {
  const inspect = createInspectSource(inspectSettings(config));
  return ({ client, caches: { models, hosts }, record, clock, log }) =>
    createModelReconciler({ client, models, hosts, inspect, record, clock, log });
}

/** The pass, with a memory of its own for earlier inspections. */
export function createModelReconciler(ports: ModelReconcilerPorts): ReconcileModel {
  const records = new Map<string, InspectionRecord>();
  return async (key, signal) => {
    const model = ports.models.get(key);
    if (model === undefined || model.metadata.deletionTimestamp !== undefined) {
      records.delete(key);
      return undefined;
    }
    const task = classifyModel(model);
    const { clock } = ports;
    let written = model;
    if (task.at !== "remote") records.delete(key);
    else if (isInspectionDue(model, records.get(key), clock.monotonicMs())) {
      written = await writeStatus(ports, model, task, recordFor(model, records.get(key))?.result);
      const result = await inspect(ports, model, task, signal);
      const random = (ports.random ?? Math.random)();
      records.set(key, recordInspection(model, records.get(key), result, clock.monotonicMs(), random));
    }
    const record = recordFor(model, records.get(key));
    await writeStatus(ports, written, task, record?.result);
    return record?.nextAtMs === undefined
      ? undefined
      : { recheckAfterMs: Math.max(0, record.nextAtMs - clock.monotonicMs()) };
  };
}

async function inspect(
  { client, inspect: inspectSource, log }: ModelReconcilerPorts,
  model: Model,
  { source }: Extract<Task, { at: "remote" }>,
  signal: AbortSignal,
): Promise<InspectionResult> {
  const { namespace, name } = model.metadata;
  try {
    const secretHeaders = await readSecretHeaders(client, model);
    const { files, mmproj, format, quantization } = model.spec;
    const wish = { files, mmproj, format, quantization };
    const { revision } = pinnedOf(model) ?? {};
    return { at: "found", found: await inspectSource({ source, wish, revision, secretHeaders, signal }) };
  } catch (error) {
    if (!(error instanceof SourceFailure)) throw error;
    const { error: reason, isTransient, retryAfterMs } = error;
    log.warn({ model: `${namespace}/${name}`, code: reason.code, err: error }, "cannot read the source");
    return { at: "failed", code: reason.code, message: describeError(reason), isTransient, retryAfterMs };
  }
}

/** Writes the status where it differs, and says so once per change. Returns the Model as it is then. */
async function writeStatus(
  ports: ModelReconcilerPorts,
  model: Model,
  task: Task,
  result: InspectionResult | undefined,
): Promise<Model> {
  const nowIso = isoSeconds(ports.clock.nowMs());
  const observation = { model, hosts: ports.hosts.list(), task, inspection: result, isKnown: isKnown(model) };
  const status = planModelStatus(observation, nowIso);
  const { name, namespace, uid } = model.metadata;
  const metadata = {
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
  };
  const object = { apiVersion: `${MODELS.group}/${MODELS.version}`, kind: MODELS.kind, metadata, status };
  // An apply configuration of the status alone; spec belongs to the user.
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
    const event = { reason: honored.reason, action: "ReadSpec", note: honored.message };
    reportOn(record, MODELS, model, { type: "Warning", ...event });
  }
  if (model.status?.reason === reason && model.status.observedGeneration === status.observedGeneration)
    return;
  const { name, namespace } = model.metadata;
  log.info({ model: `${namespace}/${name}`, phase, reason }, "phase changed");
  if (reason === "ReadingSource") return;
  const type = phase === "Ready" ? "Normal" : "Warning";
  reportOn(record, MODELS, model, { type, reason, action: "ReadSource", note: truncate(message, 1000) });
}
