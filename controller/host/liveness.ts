/**
 * Which hosts are alive, judged by observed changes of their Leases on the controller's own monotonic clock.
 * Pure.
 */

import { lowerBound } from "../../src/capacity/placement/scheduler/sorted.ts";

/** Silence after which a host counts as gone; as long as its Lease lasts. */
export const SILENCE_MS = 40_000;
/** After an outage an agent renews within this time: a period of 10 s, and two attempts of 5 s that fail, with their pauses. */
const RETURN_MS = 30_000;
/** For a host without replicas; replicas carry their own limit. */
export const DEFAULT_LOST_MS = 300_000;

/** From where the silence counts to the change that ended it. */
export interface Absence {
  readonly fromMs: number;
  readonly toMs: number;
}

/** What is known of one host. Times are monotonic milliseconds. */
export interface HostSign {
  readonly name: string;
  /** When a change of its Lease was last observed by this process. */
  readonly lastChangeMs?: number;
  /** The last time for which its Lease had expired. */
  readonly absence?: Absence;
  /** Its Lease names a holder: an agent has joined. `host add` creates a Lease without one. */
  readonly hasHolder: boolean;
  /**
   * The status of its Reachable condition; absent until the first verdict, and while its agent has never
   * reported.
   */
  readonly reachable?: "True" | "False" | "Unknown";
  readonly isLost: boolean;
  /** The shortest limit of silence among its replicas; absent without replicas. */
  readonly lostAfterMs?: number;
  /** An operator declared it lost, and its agent has not renewed the Lease since. */
  readonly isDeclaredLost?: boolean;
  /** An operator declared it lost whatever its agent renews. */
  readonly isForcedLost?: boolean;
}

export interface LivenessInput {
  readonly hosts: readonly HostSign[];
  /** Start, change of leader or last interruption of the Lease watch: silence before it proves nothing. */
  readonly countedFromMs: number;
}

export type LivenessVerdict =
  | { readonly at: "reachable" }
  /** Was reachable and is silent, but not for long enough yet. */
  | { readonly at: "counting" }
  /** No agent has joined, or none was seen to renew: neither reachable nor lost, and not counted with the others. */
  | { readonly at: "neverSeen" }
  | { readonly at: "massExpiry"; readonly silentMs: number }
  | { readonly at: "unreachable"; readonly silentMs: number }
  | {
      readonly at: "lost";
      readonly silentMs: number;
      readonly isDeclared: boolean;
      /** By an operator who does not trust the Lease of this host. */
      readonly isForced?: boolean;
    };

export interface LivenessPlan {
  readonly verdicts: ReadonlyMap<string, LivenessVerdict>;
  readonly recheckAfterMs?: number;
}

/**
 * Judges every host. No host is judged gone if more than half of those that count, and more than two, fell
 * silent together, nor while the others of these are just returning.
 */
export function planLiveness({ hosts, countedFromMs }: LivenessInput, now: number): LivenessPlan {
  const silences = hosts.map((host) => silenceOf(host, countedFromMs, now));
  const counted = silences.filter(({ counts }) => counts).length;
  const expiries = silences.flatMap(({ expiredTogetherMs }) => expiredTogetherMs ?? []).sort((a, b) => a - b);
  const verdicts = new Map<string, LivenessVerdict>();
  let recheckAfterMs: number | undefined;
  for (const silence of silences) {
    const verdict = judge(silence, () => isMassExpiry(silence, counted, expiries));
    verdicts.set(silence.host.name, verdict);
    const inMs = untilNext(silence, verdict, now);
    if (inMs !== undefined) recheckAfterMs = Math.min(recheckAfterMs ?? inMs, inMs);
  }
  return { verdicts, recheckAfterMs };
}

/**
 * The same verdict on one host, without a look at the others; undefined if they count: for a host that has expired and is
 * not judged yet.
 */
export function judgeSingleHost(
  host: HostSign,
  countedFromMs: number,
  now: number,
): LivenessVerdict | undefined {
  let isAlone = true;
  const verdict = judge(silenceOf(host, countedFromMs, now), () => {
    isAlone = false;
    return false;
  });
  return isAlone ? verdict : undefined;
}

/**
 * True for a host that no agent has joined: its Lease has no holder, and it was never judged or runs nothing. What runs
 * on it keeps its limit of silence, so that a host cannot keep replicas by emptying its Lease.
 */
function isAwaited({ hasHolder, reachable, lostAfterMs }: HostSign): boolean {
  return !hasHolder && (reachable === undefined || lostAfterMs === undefined);
}

interface Silence {
  readonly host: HostSign;
  readonly isAwaited: boolean;
  readonly isFresh: boolean;
  readonly silentMs: number;
  readonly expiresAtMs: number;
  readonly isExpired: boolean;
  /** Not judged gone before this window, so it counts for the half in a mass expiry. */
  readonly counts: boolean;
  /** When its Lease expired, if it has not returned, or only just has; these together can be a mass expiry. */
  readonly expiredTogetherMs: number | undefined;
}

function silenceOf(host: HostSign, countedFromMs: number, now: number): Silence {
  const { lastChangeMs, absence, reachable } = host;
  const sinceMs = Math.max(lastChangeMs ?? countedFromMs, countedFromMs);
  const silentMs = Math.max(0, now - sinceMs);
  const expiresAtMs = sinceMs + SILENCE_MS;
  const awaited = isAwaited(host);
  const isFresh = !awaited && now - (lastChangeMs ?? Number.NEGATIVE_INFINITY) < SILENCE_MS;
  const isExpired = silentMs >= SILENCE_MS;
  const wasSeen = !awaited && (reachable === "True" || reachable === "Unknown" || lastChangeMs !== undefined);
  const isWrittenOff = reachable === "False" && !isFresh;
  const counts = wasSeen && (!isWrittenOff || now - expiresAtMs < SILENCE_MS);
  const justReturned = isFresh && absence !== undefined && now - absence.toMs < RETURN_MS;
  const expiredMs = justReturned ? absence.fromMs + SILENCE_MS : isExpired ? expiresAtMs : undefined;
  return {
    host,
    isAwaited: awaited,
    isFresh,
    silentMs,
    expiresAtMs,
    isExpired,
    counts,
    expiredTogetherMs: counts ? expiredMs : undefined,
  };
}

function judge(silence: Silence, isMass: () => boolean): LivenessVerdict {
  const { host, isFresh, silentMs } = silence;
  if (host.isForcedLost === true) return { at: "lost", silentMs, isDeclared: true, isForced: true };
  if (isFresh) return { at: "reachable" };
  // An operator's declaration settles it, also in a mass expiry, but only once the Lease has expired.
  if (host.isDeclaredLost === true && silence.isExpired) return { at: "lost", silentMs, isDeclared: true };
  const lost = { at: "lost", silentMs, isDeclared: false } as const;
  const isOver = (limitMs: number): boolean => silentMs >= (host.lostAfterMs ?? limitMs);
  if (silence.isAwaited || (host.reachable === undefined && host.lastChangeMs === undefined))
    return isOver(Number.POSITIVE_INFINITY) ? lost : { at: "neverSeen" };
  if (host.reachable === "False")
    return host.isLost || isOver(DEFAULT_LOST_MS) ? lost : { at: "unreachable", silentMs };
  if (!silence.isExpired) return { at: "counting" };
  return { at: isMass() ? "massExpiry" : "unreachable", silentMs };
}

/** `expiries` ascend. */
function isMassExpiry({ expiresAtMs }: Silence, counted: number, expiries: readonly number[]): boolean {
  const first = lowerBound(expiries, (atMs) => atMs < expiresAtMs - SILENCE_MS);
  const together = lowerBound(expiries, (atMs) => atMs <= expiresAtMs + SILENCE_MS) - first;
  return together > 2 && together * 2 > counted;
}

/** When the verdict can change by time alone. */
function untilNext(
  { host, silentMs, expiresAtMs }: Silence,
  verdict: LivenessVerdict,
  now: number,
): number | undefined {
  switch (verdict.at) {
    case "reachable":
      return Math.max(1, (host.lastChangeMs ?? now) + SILENCE_MS - now);
    case "counting":
      return Math.max(1, expiresAtMs - now);
    case "unreachable":
      return Math.max(1, (host.lostAfterMs ?? DEFAULT_LOST_MS) - silentMs);
    case "neverSeen": {
      const limits = [host.lostAfterMs, host.isDeclaredLost === true ? SILENCE_MS : undefined];
      const inMs = limits.filter((limit) => limit !== undefined).map((limit) => limit - silentMs);
      return inMs.length === 0 ? undefined : Math.max(1, Math.min(...inMs));
    }
    // The other hosts leave the window or return; only a return triggers a pass.
    case "massExpiry":
      return SILENCE_MS;
    case "lost":
      return undefined;
    default:
      return verdict satisfies never;
  }
}
