/** Reconciles one BackendRuntime: stores its content, admits its services to the current revision, and writes its status. */
import type { BackendRuntime } from "../../src/api/backend-runtime.ts";
import { MANAGER_CONTROLLER } from "../../src/api/group.ts";
import { BACKEND_RUNTIMES } from "../../src/api/kinds.ts";
import { CONTROLLER_REVISIONS } from "../../src/kube/kinds.ts";
import type { Recheck } from "../../src/kube/queue.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { ApiCallFailed, isSettled } from "../service/apply/failure.ts";
import { type ReportedEvent, reportOn } from "../watches/events.ts";
import type { ControllerPorts } from "../watches/ports.ts";
import { type BackendPlan, type BackendTurn, planBackend } from "./plan/plan.ts";
import type { BackendTurns } from "./turns.ts";

export interface BackendPorts
  extends Pick<ControllerPorts, "client" | "clock" | "log" | "record" | "watches"> {
  readonly turns: BackendTurns;
  /** Called with the keys of services that may use another revision now. */
  readonly onGranted: (services: readonly string[]) => void;
}

const CONFLICT_RETRY_MS = 1_000;

/** Throws if only a retry can help. */
export async function reconcileBackend(ports: BackendPorts, name: string): Promise<Recheck | undefined> {
  const { watches, turns, clock } = ports;
  // Otherwise content would be stored again, or removed although it is in use.
  if (watches.backendsProblem() !== undefined) return undefined;
  const runtime = watches.backendRuntimes.get(name);
  const before = turns.of(name) ?? { updating: runtime?.status?.updating, granted: new Map() };
  const observed = {
    name,
    runtime,
    stored: watches.revisionsOfBackend.of(name),
    services: watches.servicesOfBackend.of(name),
    turn: before,
  };
  const plan = planBackend(observed, isoSeconds(clock.nowMs()));
  // Content is stored before a service uses it, and the turn is written before it is taken.
  await storeRevisions(ports, plan);
  const isWritten = runtime === undefined || (await writeStatus(ports, runtime, plan));
  if (!isWritten) return { recheckAfterMs: CONFLICT_RETRY_MS };
  turns.set(name, runtime === undefined ? undefined : plan.turn);
  ports.onGranted(changedGrants(before, plan.turn));
  return undefined;
}

async function storeRevisions({ client }: BackendPorts, { create, remove }: BackendPlan): Promise<void> {
  if (create !== undefined) {
    const result = await client.create(CONTROLLER_REVISIONS, create);
    if (!result.ok && result.error.kind !== "alreadyExists")
      throw new ApiCallFailed(`create ControllerRevision ${create.metadata.name}`, result.error);
  }
  for (const { metadata } of remove) {
    const { name, uid } = metadata;
    const removed = await client.remove(CONTROLLER_REVISIONS, metadata, { uid });
    isSettled(`delete ControllerRevision ${name}`, removed);
  }
}

/** Returns false if another client wrote first. */
async function writeStatus(
  { client, record, log }: BackendPorts,
  runtime: BackendRuntime,
  { status }: BackendPlan,
): Promise<boolean> {
  const { name } = runtime.metadata;
  const object = { metadata: { name }, status } as BackendRuntime;
  const options = { manager: MANAGER_CONTROLLER, subresource: "status", current: runtime } as const;
  const result = await client.apply(BACKEND_RUNTIMES, object, options);
  const event = eventOf(runtime.status, status);
  if (result.ok && event !== undefined) {
    reportOn(record, BACKEND_RUNTIMES, runtime, event);
    log.info({ backendRuntime: name, reason: event.reason, updating: status?.updating }, event.note);
  }
  return isSettled(`write the status of BackendRuntime ${name}`, result);
}

/** One Event for each step of a rollout. */
function eventOf(
  before: BackendRuntime["status"],
  after: BackendRuntime["status"],
): ReportedEvent | undefined {
  const { reason = "", message = "", updating } = after ?? {};
  if (before?.reason === undefined) return undefined;
  if (before.reason === reason && before.updating === updating) return undefined;
  const type = reason === "RolloutStopped" ? "Warning" : "Normal";
  return { type, reason, action: "RollOut", note: message.slice(0, 1000) };
}

function changedGrants({ granted: old }: BackendTurn, { granted }: BackendTurn): readonly string[] {
  return [...granted].filter(([key, revision]) => old.get(key) !== revision).map(([key]) => key);
}
