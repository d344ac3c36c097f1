/** Finds replicas that fail to become Ready, or that crashed recently. Pure: the history is an argument and a result. */

import { getCondition } from "../../../src/api/conditions.ts";
import { type InferenceReplica, RESTARTS_RESET_AFTER_MS } from "../../../src/api/inference-replica.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { Moment } from "../../../src/util/moment.ts";
import { lacksFile } from "../../frame/scheduler/refusals.ts";
import { crashesInARow } from "./crashes.ts";
import { isServingReplica, ordinalOf } from "./slots.ts";

/** A replica that is not Ready is failing after this long without a change of its status. */
export const PROGRESS_DEADLINE_MS = 10 * 60_000;
/** Deadline while the replica fetches or loads: its agent has its own limits, and reports progress in steps of 5 %. */
export const LOADING_DEADLINE_MS = 60 * 60_000;
/** This many consecutive crashes are a crash loop. */
const CRASH_LOOP = 2;
/** After a crash loop a replica must be Ready for this long before an old replica is stopped for it. */
export const SETTLE_MS = 60_000;

/** Observations of one replica. Times are from the controller's monotonic clock. */
interface Watched {
  readonly mark: string;
  readonly sinceMs: number;
  /** Slot and revision. A failing replica that moves to another host is failing there too, until it is Ready. */
  readonly slotRevision: string;
  /** The reason why the replica fails, which stays until the replica is Ready. */
  readonly failing?: string;
  /** `status.restarts` while the replica is Ready. */
  readonly readyWith?: number;
  /** True if the host lacks a file that another replica serves, so the host refuses the replica and the revision does not fail. */
  readonly isRefused?: boolean;
  /** `status.restarts` when the replica was last steadily Ready. Earlier crashes do not count. */
  readonly forgiven: number;
}

/** Observations by uid of the replica. */
export type HealthHistory = ReadonlyMap<string, Watched>;

export interface HealthReading {
  readonly history: HealthHistory;
  readonly failing: ReadonlyMap<string, string>;
  readonly unsettled: ReadonlySet<string>;
  readonly recheckAfterMs?: number;
}

/** Continues from the history of the last pass. */
export function readHealth(
  history: HealthHistory,
  replicas: readonly InferenceReplica[],
  moment: Moment,
): HealthReading {
  const next = new Map<string, Watched>();
  const failing = new Map<string, string>();
  const unsettled = new Set<string>();
  const inherited = failingBySlot(history);
  const served = new Set(replicas.filter(isServingReplica).map(({ spec }) => spec.template.model.source));
  let recheckAfterMs: number | undefined;
  for (const replica of replicas) {
    const { uid = "", name } = replica.metadata;
    if (isBeingDeleted(replica)) continue;
    const { watched, leftMs, isUnsettled } = checkReplica(replica, history.get(uid), moment, {
      inherited,
      served,
    });
    next.set(uid, watched);
    if (watched.failing !== undefined) failing.set(name, watched.failing);
    if (isUnsettled) unsettled.add(name);
    const waitMs = watched.failing === undefined && leftMs > 0 ? leftMs : Number.POSITIVE_INFINITY;
    if (waitMs < (recheckAfterMs ?? Number.POSITIVE_INFINITY)) recheckAfterMs = waitMs;
  }
  return { history: next, failing, unsettled, recheckAfterMs };
}

interface ReplicaHealth {
  readonly watched: Watched;
  /** Remaining time until the deadline of the current state. */
  readonly leftMs: number;
  readonly isUnsettled: boolean;
}

interface Others {
  /** The reasons why replicas fail, by slot and revision. */
  readonly inherited: ReadonlyMap<string, string>;
  /** Sources of Ready replicas. */
  readonly served: ReadonlySet<string>;
}

function checkReplica(
  replica: InferenceReplica,
  before: Watched | undefined,
  moment: Moment,
  { inherited, served }: Others,
): ReplicaHealth {
  const now = moment.monotonicMs;
  const slotRevision = slotRevisionOf(replica);
  const mark = markOf(replica);
  const sinceMs = before?.mark === mark ? before.sinceMs : now;
  const forgiven = forgivenOf(replica, before, moment);
  const crashes = crashesInARow(replica, forgiven);
  const leftMs = sinceMs + limitOf(replica, crashes) - now;
  if (isServingReplica(replica)) {
    const readyWith = replica.status?.restarts ?? 0;
    const isUnsettled = crashes >= CRASH_LOOP && leftMs > 0;
    return { watched: { mark, sinceMs, slotRevision, readyWith, forgiven }, leftMs, isUnsettled };
  }
  const isServed = before?.isRefused === true || served.has(replica.spec.template.model.source);
  if (isServed && lacksFile(replica))
    return {
      watched: { mark, sinceMs, slotRevision, forgiven, isRefused: true },
      leftMs: 0,
      isUnsettled: false,
    };
  const known = before === undefined ? inherited.get(slotRevision) : before.failing;
  const failing = failureOf(replica, crashes, leftMs <= 0) ?? known;
  return { watched: { mark, sinceMs, slotRevision, forgiven, failing }, leftMs, isUnsettled: false };
}

/** Crashes that no longer count. Limited to `restarts`, because an agent that lost its state starts again at 0. */
function forgivenOf(
  replica: InferenceReplica,
  before: Watched | undefined,
  { monotonicMs, wallMs }: Moment,
): number {
  const { restarts = 0, readyAt = "" } = replica.status ?? {};
  if (before === undefined) {
    // The time is from another machine's clock, so it is used only for the first observation.
    return isServingReplica(replica) && wallMs - Date.parse(readyAt) >= RESTARTS_RESET_AFTER_MS
      ? restarts
      : 0;
  }
  const { readyWith, sinceMs, forgiven } = before;
  const isSteady = readyWith !== undefined && monotonicMs - sinceMs >= RESTARTS_RESET_AFTER_MS;
  return Math.min(restarts, isSteady ? readyWith : forgiven);
}

function failingBySlot(history: HealthHistory): ReadonlyMap<string, string> {
  const reasons = new Map<string, string>();
  for (const { slotRevision, failing } of history.values())
    if (failing !== undefined) reasons.set(slotRevision, failing);
  return reasons;
}

function slotRevisionOf(replica: InferenceReplica): string {
  return `${ordinalOf(replica)} ${replica.spec.template.revision}`;
}

/** A key that changes whenever a replica makes progress. */
function markOf(replica: InferenceReplica): string {
  const { phase, reason, progress, restarts, readyAt } = replica.status ?? {};
  if (isServingReplica(replica)) return `ready ${readyAt} ${restarts}`;
  return [phase, reason, progress?.bytes, restarts, isUnreachable(replica)].join(" ");
}

function limitOf(replica: InferenceReplica, crashes: number): number {
  const { phase } = replica.status ?? {};
  if (isServingReplica(replica)) return crashes >= CRASH_LOOP ? SETTLE_MS : Number.POSITIVE_INFINITY;
  // The host is unreachable, so the status is outdated. spec.hostLostSeconds is the limit for that.
  if (phase === "Ready" || isUnreachable(replica)) return Number.POSITIVE_INFINITY;
  return phase === "Fetching" || phase === "Starting" ? LOADING_DEADLINE_MS : PROGRESS_DEADLINE_MS;
}

/** True if the host is unreachable. The revision must not fail because of that time. */
function isUnreachable({ status }: InferenceReplica): boolean {
  const reachable = getCondition(status?.conditions, "HostReachable");
  return reachable !== undefined && reachable.status !== "True";
}

function failureOf(replica: InferenceReplica, crashes: number, isOverdue: boolean): string | undefined {
  const { phase, reason, message, readyAt } = replica.status ?? {};
  const detail = [reason, message].filter((text) => text !== undefined && text !== "").join(": ");
  const subject = `${replica.metadata.name} on ${replica.spec.template.hostName}`;
  if (phase === "Failed") return `${subject} is Failed (${detail})`;
  if (crashes >= CRASH_LOOP && (phase === "Backoff" || readyAt === undefined)) {
    return `${subject} exited ${crashes} times (${detail})`;
  }
  if (!isOverdue) return undefined;
  const minutes = limitOf(replica, crashes) / 60_000;
  return `${subject} has been ${phase ?? "without a status"} for ${minutes} min without progress${detail === "" ? "" : ` (${detail})`}`;
}
