/** Which replicas do not become Ready, and which are not to be trusted yet. Pure; what it remembers goes in and comes out. */
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { isReady, ordinalOf } from "./slots.ts";

/** Without any change of its status for so long a replica that is not Ready counts as failing. */
export const PROGRESS_DEADLINE_MS = 10 * 60_000;
/** While it fetches or loads, where its agent has limits of its own and tells of progress in steps of 5 %. */
export const LOADING_DEADLINE_MS = 60 * 60_000;
/** So many crashes without becoming Ready for good are a crash loop. */
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
  now: number,
): HealthReading {
  const next = new Map<string, Watched>();
  const failing = new Map<string, string>();
  const unsettled = new Set<string>();
  const inherited = failingByPlace(book);
  let recheckAfterMs: number | undefined;
  for (const replica of replicas) {
    const { uid = "", name, deletionTimestamp } = replica.metadata;
    if (deletionTimestamp !== undefined) continue;
    const { watched, leftMs } = look(replica, book.get(uid), now, inherited);
    next.set(uid, watched);
    if (watched.failing !== undefined) failing.set(name, watched.failing);
    if (isReady(replica) && isCrashLoop(replica) && leftMs > 0) unsettled.add(name);
    const waitMs = watched.failing === undefined && leftMs > 0 ? leftMs : Number.POSITIVE_INFINITY;
    if (waitMs < (recheckAfterMs ?? Number.POSITIVE_INFINITY)) recheckAfterMs = waitMs;
  }
  const reading = { book: next, failing, unsettled };
  return recheckAfterMs === undefined ? reading : { ...reading, recheckAfterMs };
}

/** One replica, and how long it may stay as it is. */
function look(
  replica: InferenceReplica,
  before: Watched | undefined,
  now: number,
  inherited: ReadonlyMap<string, string>,
): { readonly watched: Watched; readonly leftMs: number } {
  const place = placeOf(replica);
  const mark = markOf(replica);
  const sinceMs = before?.mark === mark ? before.sinceMs : now;
  const leftMs = sinceMs + limitOf(replica) - now;
  const known = before === undefined ? inherited.get(place) : before.failing;
  const why = isReady(replica) ? undefined : (troubleOf(replica, leftMs <= 0) ?? known);
  return { watched: { mark, sinceMs, place, ...(why === undefined ? {} : { failing: why }) }, leftMs };
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

function limitOf(replica: InferenceReplica): number {
  const { phase } = replica.status ?? {};
  if (isReady(replica)) return isCrashLoop(replica) ? SETTLE_MS : Number.POSITIVE_INFINITY;
  // Its agent is silent: that is its host's trouble, and has a limit of its own.
  if (phase === "Ready") return Number.POSITIVE_INFINITY;
  return phase === "Fetching" || phase === "Starting" ? LOADING_DEADLINE_MS : PROGRESS_DEADLINE_MS;
}

function troubleOf(replica: InferenceReplica, isOverdue: boolean): string | undefined {
  const { phase, reason, message, readyAt } = replica.status ?? {};
  const said = [reason, message].filter((text) => text !== undefined && text !== "").join(": ");
  const what = `${replica.metadata.name} on ${replica.spec.template.hostName}`;
  if (phase === "Failed") return `${what} is Failed (${said})`;
  if (isCrashLoop(replica) && (phase === "Backoff" || readyAt === undefined)) {
    return `${what} has ended ${replica.status?.restarts} times (${said})`;
  }
  if (!isOverdue) return undefined;
  const minutes = limitOf(replica) / 60_000;
  return `${what} has been ${phase ?? "without a status"} for ${minutes} min without progress${said === "" ? "" : ` (${said})`}`;
}

function isCrashLoop({ status }: InferenceReplica): boolean {
  return (status?.restarts ?? 0) >= CRASH_LOOP;
}
