/** One pass over one Model: look at its source when that is due, write what is known. */
import { MANAGER_CONTROLLER } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { MODELS } from "../../src/api/kinds.ts";
import type { Model, ModelStatus } from "../../src/api/model.ts";
import { describeError } from "../../src/errors.ts";
import type { RecordEvent } from "../../src/kube/events.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import type { KubeClient, Reflector } from "../../src/kube/types.ts";
import type { Clock, Log } from "../../src/ports.ts";
import { classifyModel, type Task } from "./classify.ts";
import { readSecretHeaders } from "./credentials.ts";
import { isKnown, isLookDue, type LookRecord, type LookResult, recordFor, recordLook } from "./looks.ts";
import { planModelStatus } from "./plan.ts";
import { LookFailure } from "./remote/failure.ts";
import type { LookAtSource } from "./remote/look.ts";

export interface ModelReconcilerPorts {
  readonly client: KubeClient;
  readonly models: Pick<Reflector<Model>, "get">;
  readonly hosts: Pick<Reflector<Host>, "list">;
  readonly look: LookAtSource;
  readonly record: RecordEvent;
  readonly clock: Clock;
  readonly log: Log;
  /** In [0, 1): spreads retries. */
  readonly random?: () => number;
}

export type ReconcileModel = (key: string, signal: AbortSignal) => Promise<Recheck | undefined>;

/** The pass, with a memory of its own for what it has looked at. */
export function createModelReconciler(ports: ModelReconcilerPorts): ReconcileModel {
  const records = new Map<string, LookRecord>();
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
    else if (isLookDue(model, records.get(key), clock.monotonicMs())) {
      written = await writeStatus(ports, model, task, recordFor(model, records.get(key))?.result);
      const result = await look(ports, model, task, signal);
      const random = (ports.random ?? Math.random)();
      records.set(key, recordLook(model, records.get(key), result, clock.monotonicMs(), random));
    }
    const record = recordFor(model, records.get(key));
    await writeStatus(ports, written, task, record?.result);
    return record?.nextAtMs === undefined
      ? undefined
      : { recheckAfterMs: Math.max(0, record.nextAtMs - clock.monotonicMs()) };
  };
}

async function look(
  { client, look: lookAt, log }: ModelReconcilerPorts,
  model: Model,
  { source }: Extract<Task, { at: "remote" }>,
  signal: AbortSignal,
): Promise<LookResult> {
  const { namespace, name } = model.metadata;
  try {
    const secretHeaders = await readSecretHeaders(client, model);
    return { at: "found", found: await lookAt({ source, spec: model.spec, secretHeaders, signal }) };
  } catch (error) {
    if (!(error instanceof LookFailure)) throw error;
    const { reason, isPassing, retryAfterMs } = error;
    log.warn(
      { model: `${namespace}/${name}`, code: reason.code, err: error },
      "the source could not be read",
    );
    return { at: "failed", code: reason.code, message: describeError(reason), isPassing, retryAfterMs };
  }
}

/** Writes the status where it differs, and says so once per change. Returns the Model as it is then. */
async function writeStatus(
  ports: ModelReconcilerPorts,
  model: Model,
  task: Task,
  result: LookResult | undefined,
): Promise<Model> {
  const nowIso = new Date(ports.clock.nowMs()).toISOString().replace(/\.\d{3}Z$/, "Z");
  const observation = { model, hosts: ports.hosts.list(), task, look: result, isKnown: isKnown(model) };
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
  if (model.status?.reason === reason && model.status.observedGeneration === status.observedGeneration)
    return;
  const { name, namespace, uid } = model.metadata;
  log.info({ model: `${namespace}/${name}`, phase, reason }, "phase changed");
  if (reason === "ReadingSource") return;
  const regarding = {
    apiVersion: `${MODELS.group}/${MODELS.version}`,
    kind: MODELS.kind,
    name,
    ...(namespace === undefined ? {} : { namespace }),
    ...(uid === undefined ? {} : { uid }),
  };
  record(regarding, {
    type: phase === "Ready" ? "Normal" : "Warning",
    reason,
    action: "ReadSource",
    note: message.slice(0, 1000),
  });
}
