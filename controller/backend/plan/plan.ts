/** Plans the rollout of a BackendRuntime: which services may use its current content, which revisions to store, and its status. Pure. */
import type { BackendRuntime } from "../../../src/api/backend-runtime.ts";
import { setCondition } from "../../../src/api/conditions.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { keyOf } from "../../../src/api/names.ts";
import type { ControllerRevision } from "../../../src/kube/objects.ts";
import { defined } from "../../../src/util/defined.ts";
import { compareText, truncate } from "../../../src/util/text.ts";
import { type BackendObserved, usedBackend } from "./choice.ts";
import { backendControllerRevision, revisionOfBackend, storedBackend } from "./revision.ts";

/** Decisions of earlier passes. */
export interface BackendTurn {
  /** Key of the service that is being updated. */
  readonly updating: string | undefined;
  /** Revisions that services may use before their status shows them, by key of the service. */
  readonly granted: ReadonlyMap<string, string>;
}

export interface BackendPlanInput extends BackendObserved {
  readonly name: string;
  /** The services that name the BackendRuntime. */
  readonly services: readonly InferenceService[];
  readonly turn: BackendTurn;
}

type BackendRuntimeStatus = NonNullable<BackendRuntime["status"]>;

export interface BackendPlan {
  readonly create: ControllerRevision | undefined;
  readonly remove: readonly ControllerRevision[];
  readonly turn: BackendTurn;
  /** Undefined if the BackendRuntime does not exist. */
  readonly status: BackendRuntimeStatus | undefined;
}

export function planBackend(input: BackendPlanInput, nowIso: string): BackendPlan {
  const { name, runtime, stored } = input;
  const services = input.services
    .filter((service) => !isBeingDeleted(service))
    .sort((a, b) => compareText(keyOf(a.metadata), keyOf(b.metadata)));
  const current = runtime && revisionOfBackend(runtime.spec);
  const used = new Set([current, ...services.map((service) => usedBackend(service)?.revision)]);
  const remove = stored.filter((one) => !used.has(storedBackend(one)?.revision ?? ""));
  if (runtime === undefined || current === undefined)
    return {
      create: undefined,
      remove,
      turn: { updating: undefined, granted: new Map() },
      status: undefined,
    };
  const order = Math.max(0, ...stored.map(({ revision }) => revision)) + 1;
  const create = stored.some((one) => storedBackend(one)?.revision === current)
    ? undefined
    : backendControllerRevision({ name, revision: current, spec: runtime.spec }, order);
  const turn = nextTurn(input, services, current, runtime);
  return { create, remove, turn, status: statusOf(runtime, { services, current, turn }, nowIso) };
}

/** The parts of a service on which the rollout depends. */
export function rolloutFactsOf(service: InferenceService | undefined) {
  if (service === undefined) return undefined;
  const { metadata, spec, status = {} } = service;
  const { backendRuntime, phase, message, replicas, observedGeneration } = status;
  const { generation, deletionTimestamp } = metadata;
  const { suspend, backendRuntime: named, replicas: desired } = spec;
  return {
    backendRuntime,
    phase,
    message,
    replicas,
    observedGeneration,
    generation,
    deletionTimestamp,
    suspend,
    named,
    desired,
  };
}

function nextTurn(
  { turn: before }: BackendPlanInput,
  services: readonly InferenceService[],
  current: string,
  { spec: { rolloutPolicy } }: BackendRuntime,
): BackendTurn {
  const outdated = services.filter((service) => isOutdated(service, current));
  const isInTurn = rolloutPolicy === "OneServiceAtATime";
  const holder = services.find(({ metadata }) => keyOf(metadata) === before.updating);
  const isHeld = holder !== undefined && !(isUpdated(holder, current) && isSettled(holder));
  const next = isHeld ? holder : outdated.find((service) => !isIdle(service));
  const updating = isInTurn && next !== undefined ? keyOf(next.metadata) : undefined;
  const granted = outdated.filter((service) => {
    const key = keyOf(service.metadata);
    // A grant stays until the status shows it: the service may be using the revision already.
    return key === updating || (isInTurn && isIdle(service)) || before.granted.get(key) === current;
  });
  return { updating, granted: new Map(granted.map(({ metadata }) => [keyOf(metadata), current])) };
}

/** A service that uses no revision yet begins with the current one. */
function isOutdated(service: InferenceService, current: string): boolean {
  const used = usedBackend(service);
  return used !== undefined && used.revision !== current;
}

function isUpdated(service: InferenceService, current: string): boolean {
  return usedBackend(service)?.revision === current;
}

/** True if an update interrupts nothing. */
function isIdle({ spec, status }: InferenceService): boolean {
  return spec.suspend || spec.replicas === 0 || (status?.replicas ?? 0) === 0;
}

const AT_REST = new Set(["Ready", "Stopped", "Suspended"]);
/** Phases in which an update may never complete. */
const STUCK = new Set(["Degraded", "Failed", "Pending", "WaitingForCapacity", "WaitingForGPU"]);

function isSettled({ metadata, status = {} }: InferenceService): boolean {
  return status.observedGeneration === metadata.generation && AT_REST.has(status.phase ?? "");
}

interface Progress {
  readonly services: readonly InferenceService[];
  readonly current: string;
  readonly turn: BackendTurn;
}

const MAX_MESSAGE = 4096;

function statusOf(
  { metadata, status }: BackendRuntime,
  progress: Progress,
  nowIso: string,
): BackendRuntimeStatus {
  const { services, current, turn } = progress;
  const { isTrue, reason, message } = describe(progress);
  const text = truncate(message, MAX_MESSAGE);
  const update = { type: "RolledOut", status: isTrue ? "True" : "False", reason, message: text } as const;
  const observedGeneration = metadata.generation;
  return defined<BackendRuntimeStatus>({
    reason,
    message: text,
    observedGeneration,
    services: services.length,
    updatedServices: services.filter((service) => isUpdated(service, current)).length,
    revision: current,
    updating: turn.updating,
    conditions: setCondition(status?.conditions, { ...update, observedGeneration }, nowIso),
  });
}

function describe({ services, current, turn }: Progress) {
  const outdated = services.filter((service) => isOutdated(service, current)).length;
  const count = `${services.length - outdated} of ${services.length} services use revision ${current}`;
  const holder = services.find(({ metadata }) => keyOf(metadata) === turn.updating);
  if (holder !== undefined) return describeHolder(holder, { count, outdated, current });
  if (services.length === 0) return { isTrue: true, reason: "NotUsed", message: "no service uses it" };
  if (outdated === 0) return { isTrue: true, reason: "AllUpdated", message: count };
  if (turn.granted.size === outdated) return { isTrue: false, reason: "RollingOut", message: count };
  const message = `${count}; the others are updated when requested: metalbridge rollout restart SERVICE -n NAMESPACE`;
  return { isTrue: false, reason: "WaitingForRequest", message };
}

function describeHolder(
  holder: InferenceService,
  {
    count,
    outdated,
    current,
  }: { readonly count: string; readonly outdated: number; readonly current: string },
) {
  const { phase = "Pending", message: text = "" } = holder.status ?? {};
  const key = keyOf(holder.metadata);
  if (!isUpdated(holder, current) || !STUCK.has(phase))
    return { isTrue: false, reason: "RollingOut", message: `${count}; ${key} is being updated` };
  const wait =
    outdated === 0 ? "" : `; services that are not updated yet (${outdated}) wait until it is Ready`;
  const message = `${count}; ${key} is ${phase}: ${text}${wait}. To do: correct the BackendRuntime or the service`;
  return { isTrue: false, reason: "RolloutStopped", message };
}
