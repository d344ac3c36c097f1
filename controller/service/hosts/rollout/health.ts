/**
 * Which replicas fail to become Ready, and which are not yet trusted. Pure: its memory is an argument and a
 * result.
 */
import { getCondition } from "../../../../src/api/conditions.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { RESTARTS_RESET_AFTER_MS } from "../../../../src/api/inference-replica.ts";
import type { Moment } from "../../../../src/util/moment.ts";
import { lacksFile } from "../../../scheduler/refusals.ts";
import { crashesInARow } from "./crashes.ts";
import { isServingReplica, ordinalOf } from "./slots.ts";

/** A replica that is not Ready counts as failing after this long without a change of its status. */
export const PROGRESS_DEADLINE_MS = 10 * 60_000;
/** The same while it fetches or loads: its agent has its own limits and reports progress in steps of 5 %. */
export const LOADING_DEADLINE_MS = 60 * 60_000;
/** This many crashes in a row are a crash loop. */
const CRASH_LOOP = 2;
/** After a crash loop a replica must be Ready this long before an old one is stopped for it. */
export const SETTLE_MS = 60_000;

/** Observations of one replica; times are the controller's monotonic clock. */
interface Watched {
  readonly mark: string;
  readonly sinceMs: number;
  /**
   * Slot and revision: a failing replica that moves to another host stays failing there until it is Ready.
   */
  readonly place: string;
  /** Why it fails; kept until it is Ready. */
  readonly failing?: string;
  /** `status.restarts` while it is Ready. */
  readonly readyWith?: number;
  /** Its host lacks a file with which another replica serves: the host refuses it, the revision does not fail. */
  readonly isRefused?: boolean;
  /** `status.restarts` when it had last been Ready for long: crashes up to here do not count. */
  readonly forgiven: number;
}

/** By uid. */
export type HealthHistory = ReadonlyMap<string, Watched>;

export interface HealthReading {
  readonly book: HealthHistory;
  readonly failing: ReadonlyMap<string, string>;
  readonly unsettled: ReadonlySet<string>;
  readonly recheckAfterMs?: number;
}

/** Continues from the book of the last pass. */
export function readHealth(
  book: HealthHistory,
  replicas: readonly InferenceReplica[],
  moment: Moment,
): HealthReading {
  const next = new Map<string, Watched>();
  const failing = new Map<string, string>();
  const unsettled = new Set<string>();
  const inherited = failingByPlace(book);
  const served = new Set(replicas.filter(isServingReplica).map(({ spec }) => spec.template.model.source));
  let recheckAfterMs: number | undefined;
  for (const replica of replicas) {
    const { uid = "", name, deletionTimestamp } = replica.metadata;
    if (deletionTimestamp !== undefined) continue;
    const { watched, leftMs, isUnsettled } = look(replica, book.get(uid), moment, { inherited, served });
    next.set(uid, watched);
    if (watched.failing !== undefined) failing.set(name, watched.failing);
    if (isUnsettled) unsettled.add(name);
    const waitMs = watched.failing === undefined && leftMs > 0 ? leftMs : Number.POSITIVE_INFINITY;
    if (waitMs < (recheckAfterMs ?? Number.POSITIVE_INFINITY)) recheckAfterMs = waitMs;
  }
  const reading = { book: next, failing, unsettled };
  return recheckAfterMs === undefined ? reading : { ...reading, recheckAfterMs };
}

interface Look {
  readonly watched: Watched;
  /** How long it may stay as it is. */
  readonly leftMs: number;
  readonly isUnsettled: boolean;
}

interface Others {
  /** Why replicas fail, by slot and revision. */
  readonly inherited: ReadonlyMap<string, string>;
  /** Sources with which a replica is Ready. */
  readonly served: ReadonlySet<string>;
}

function look(
  replica: InferenceReplica,
  before: Watched | undefined,
  moment: Moment,
  { inherited, served }: Others,
): Look {
  const now = moment.monotonicMs;
  const place = placeOf(replica);
  const mark = markOf(replica);
  const sinceMs = before?.mark === mark ? before.sinceMs : now;
  const forgiven = forgivenOf(replica, before, moment);
  const crashes = crashesInARow(replica, forgiven);
  const leftMs = sinceMs + limitOf(replica, crashes) - now;
  if (isServingReplica(replica)) {
    const readyWith = replica.status?.restarts ?? 0;
    const isUnsettled = crashes >= CRASH_LOOP && leftMs > 0;
    return { watched: { mark, sinceMs, place, readyWith, forgiven }, leftMs, isUnsettled };
  }
  const isServed = before?.isRefused === true || served.has(replica.spec.template.model.source);
  if (isServed && lacksFile(replica))
    return { watched: { mark, sinceMs, place, forgiven, isRefused: true }, leftMs: 0, isUnsettled: false };
  const known = before === undefined ? inherited.get(place) : before.failing;
  const why = failureOf(replica, crashes, leftMs <= 0) ?? known;
  const watched = { mark, sinceMs, place, forgiven, failing: why };
  return { watched, leftMs, isUnsettled: false };
}

/** Crashes that no longer count. Never more than `restarts`: an agent that lost its state starts at 0. */
function forgivenOf(
  replica: InferenceReplica,
  before: Watched | undefined,
  { monotonicMs, wallMs }: Moment,
): number {
  const { restarts = 0, readyAt = "" } = replica.status ?? {};
  if (before === undefined) {
    // From another machine's clock, so used only where this controller has just started.
    return isServingReplica(replica) && wallMs - Date.parse(readyAt) >= RESTARTS_RESET_AFTER_MS
      ? restarts
      : 0;
  }
  const { readyWith, sinceMs, forgiven } = before;
  const isOver = readyWith !== undefined && monotonicMs - sinceMs >= RESTARTS_RESET_AFTER_MS;
  return Math.min(restarts, isOver ? readyWith : forgiven);
}

function failingByPlace(book: HealthHistory): ReadonlyMap<string, string> {
  const failing = new Map<string, string>();
  for (const { place, failing: why } of book.values()) if (why !== undefined) failing.set(place, why);
  return failing;
}

function placeOf(replica: InferenceReplica): string {
  return `${ordinalOf(replica)} ${replica.spec.template.revision}`;
}

/** Changes whenever a replica makes progress. */
function markOf(replica: InferenceReplica): string {
  const { phase, reason, progress, restarts, readyAt } = replica.status ?? {};
  if (isServingReplica(replica)) return `ready ${readyAt} ${restarts}`;
  return [phase, reason, progress?.bytes, restarts, isAway(replica)].join(" ");
}

function limitOf(replica: InferenceReplica, crashes: number): number {
  const { phase } = replica.status ?? {};
  if (isServingReplica(replica)) return crashes >= CRASH_LOOP ? SETTLE_MS : Number.POSITIVE_INFINITY;
  // Its host is unreachable, so its status is old: hostLostSeconds limits that.
  if (phase === "Ready" || isAway(replica)) return Number.POSITIVE_INFINITY;
  return phase === "Fetching" || phase === "Starting" ? LOADING_DEADLINE_MS : PROGRESS_DEADLINE_MS;
}

/** The controller has not heard of its host; the time until it does is not the revision's. */
function isAway({ status }: InferenceReplica): boolean {
  const reachable = getCondition(status?.conditions, "HostReachable");
  return reachable !== undefined && reachable.status !== "True";
}

function failureOf(replica: InferenceReplica, crashes: number, isOverdue: boolean): string | undefined {
  const { phase, reason, message, readyAt } = replica.status ?? {};
  const said = [reason, message].filter((text) => text !== undefined && text !== "").join(": ");
  const what = `${replica.metadata.name} on ${replica.spec.template.hostName}`;
  if (phase === "Failed") return `${what} is Failed (${said})`;
  if (crashes >= CRASH_LOOP && (phase === "Backoff" || readyAt === undefined)) {
    return `${what} exited ${crashes} times (${said})`;
  }
  if (!isOverdue) return undefined;
  const minutes = limitOf(replica, crashes) / 60_000;
  return `${what} has been ${phase ?? "without a status"} for ${minutes} min without progress${said === "" ? "" : ` (${said})`}`;
}
