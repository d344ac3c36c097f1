/** Which replicas do not become Ready, and which are not to be trusted yet. Pure; what it remembers goes in and comes out. */
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { Moment } from "../../placement/claims.ts";
import { crashesInARow, STEADY_MS } from "./crashes.ts";
import { isReady, ordinalOf } from "./slots.ts";

/** Without any change of its status for so long a replica that is not Ready counts as failing. */
export const PROGRESS_DEADLINE_MS = 10 * 60_000;
/** While it fetches or loads, where its agent has limits of its own and tells of progress in steps of 5 %. */
export const LOADING_DEADLINE_MS = 60 * 60_000;
/** So many crashes in a row are a crash loop. */
const CRASH_LOOP = 2;
/** How long a replica that crashed so often must be Ready before an old one ends for it. */
export const SETTLE_MS = 60_000;

/** What was seen of one replica; times are the controller's monotonic clock. */
interface Watched {
  readonly mark: string;
  readonly sinceMs: number;
  /** Slot and revision: what moves to another host goes on failing there until it is Ready. */
  readonly place: string;
  /** Said to fail: stays said until it is Ready. */
  readonly failing?: string;
  /** `status.restarts` while it is Ready. */
  readonly readyWith?: number;
  /** `status.restarts` when it had last been Ready for long: so many crashes are over. */
  readonly forgiven: number;
}

/** By uid. */
export type HealthBook = ReadonlyMap<string, Watched>;

export interface HealthReading {
  readonly book: HealthBook;
  readonly failing: ReadonlyMap<string, string>;
  readonly unsettled: ReadonlySet<string>;
  readonly recheckAfterMs?: number;
}

/** Goes on from the book of the last pass. */
export function readHealth(
  book: HealthBook,
  replicas: readonly InferenceReplica[],
  moment: Moment,
): HealthReading {
  const next = new Map<string, Watched>();
  const failing = new Map<string, string>();
  const unsettled = new Set<string>();
  const inherited = failingByPlace(book);
  let recheckAfterMs: number | undefined;
  for (const replica of replicas) {
    const { uid = "", name, deletionTimestamp } = replica.metadata;
    if (deletionTimestamp !== undefined) continue;
    const { watched, leftMs, isUnsettled } = look(replica, book.get(uid), moment, inherited);
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

function look(
  replica: InferenceReplica,
  before: Watched | undefined,
  moment: Moment,
  inherited: ReadonlyMap<string, string>,
): Look {
  const now = moment.monotonicMs;
  const place = placeOf(replica);
  const mark = markOf(replica);
  const sinceMs = before?.mark === mark ? before.sinceMs : now;
  const forgiven = forgivenOf(replica, before, moment);
  const crashes = crashesInARow(replica, forgiven);
  const leftMs = sinceMs + limitOf(replica, crashes) - now;
  if (isReady(replica)) {
    const readyWith = replica.status?.restarts ?? 0;
    const isUnsettled = crashes >= CRASH_LOOP && leftMs > 0;
    return { watched: { mark, sinceMs, place, readyWith, forgiven }, leftMs, isUnsettled };
  }
  const known = before === undefined ? inherited.get(place) : before.failing;
  const why = troubleOf(replica, crashes, leftMs <= 0) ?? known;
  const watched = { mark, sinceMs, place, forgiven, ...(why === undefined ? {} : { failing: why }) };
  return { watched, leftMs, isUnsettled: false };
}

/** Crashes that do not count any more. Never more than there are: an agent that lost its state begins at none. */
function forgivenOf(
  replica: InferenceReplica,
  before: Watched | undefined,
  { monotonicMs, wallMs }: Moment,
): number {
  const { restarts = 0, readyAt = "" } = replica.status ?? {};
  if (before === undefined) {
    // Of another machine's clock, so asked only where this controller has just begun.
    return isReady(replica) && wallMs - Date.parse(readyAt) >= STEADY_MS ? restarts : 0;
  }
  const { readyWith, sinceMs, forgiven } = before;
  const isOver = readyWith !== undefined && monotonicMs - sinceMs >= STEADY_MS;
  return Math.min(restarts, isOver ? readyWith : forgiven);
}

function failingByPlace(book: HealthBook): ReadonlyMap<string, string> {
  const failing = new Map<string, string>();
  for (const { place, failing: why } of book.values()) if (why !== undefined) failing.set(place, why);
  return failing;
}

function placeOf(replica: InferenceReplica): string {
  return `${ordinalOf(replica)} ${replica.spec.template.revision}`;
}

/** What changes when a replica gets on. */
function markOf(replica: InferenceReplica): string {
  const { phase, reason, progress, restarts, readyAt } = replica.status ?? {};
  if (isReady(replica)) return `ready ${readyAt} ${restarts}`;
  return [phase, reason, progress?.bytes, restarts].join(" ");
}

function limitOf(replica: InferenceReplica, crashes: number): number {
  const { phase } = replica.status ?? {};
  if (isReady(replica)) return crashes >= CRASH_LOOP ? SETTLE_MS : Number.POSITIVE_INFINITY;
  // Its agent is silent: that is its host's trouble, and has a limit of its own.
  if (phase === "Ready") return Number.POSITIVE_INFINITY;
  return phase === "Fetching" || phase === "Starting" ? LOADING_DEADLINE_MS : PROGRESS_DEADLINE_MS;
}

function troubleOf(replica: InferenceReplica, crashes: number, isOverdue: boolean): string | undefined {
  const { phase, reason, message, readyAt } = replica.status ?? {};
  const said = [reason, message].filter((text) => text !== undefined && text !== "").join(": ");
  const what = `${replica.metadata.name} on ${replica.spec.template.hostName}`;
  if (phase === "Failed") return `${what} is Failed (${said})`;
  if (crashes >= CRASH_LOOP && (phase === "Backoff" || readyAt === undefined)) {
    return `${what} has ended ${crashes} times (${said})`;
  }
  if (!isOverdue) return undefined;
  const minutes = limitOf(replica, crashes) / 60_000;
  return `${what} has been ${phase ?? "without a status"} for ${minutes} min without progress${said === "" ? "" : ` (${said})`}`;
}
