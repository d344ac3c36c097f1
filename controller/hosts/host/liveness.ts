/** Judges which hosts are alive, by observed changes of their Leases on the controller's monotonic clock. Pure. */

import { lowerBound } from "../../../src/capacity/placement/scheduler/sorted.ts";

/** Silence after which a host is unreachable, which is the duration of its Lease. */
export const SILENCE_MS = 40_000;
/** After an outage an agent renews within this time: a period of 10 s, and two failed attempts of 5 s with their pauses. */
const RETURN_MS = 30_000;
/** Limit for a host without replicas. Each replica has its own limit. */
export const DEFAULT_LOST_MS = 300_000;

/** A silence, from the last known change to the change that ended it. */
export interface Absence {
  readonly fromMs: number;
  readonly toMs: number;
}

/** Facts about one host. Times are monotonic milliseconds. */
export interface HostSign {
  readonly name: string;
  /** Time at which this process last observed a change of the Lease. */
  readonly lastChangeMs?: number;
  /** The last period for which the Lease had expired. */
  readonly absence?: Absence;
  /** True if the Lease names a holder, so an agent has joined. `host add` creates a Lease without a holder. */
  readonly hasHolder: boolean;
  /** Status of the Reachable condition; absent until the first verdict, and while the agent has never reported. */
  readonly reachable?: "True" | "False" | "Unknown";
  readonly isLost: boolean;
  /** The shortest limit of silence among the replicas; absent without replicas. */
  readonly lostAfterMs?: number;
  /** True if an operator declared the host lost, and its agent has not renewed the Lease since. */
  readonly isDeclaredLost?: boolean;
  /** True if an operator declared the host lost, even if its agent renews the Lease. */
  readonly isForcedLost?: boolean;
}

export interface LivenessInput {
  readonly hosts: readonly HostSign[];
  /** Start, change of leader or last interruption of the Lease watch. Silence before it proves nothing. */
  readonly countedFromMs: number;
}

export type LivenessVerdict =
  | { readonly at: "reachable" }
  /** The host was reachable and is silent, but not for long enough yet. */
  | { readonly at: "counting" }
  /** No agent has joined or renewed the Lease. The host is neither reachable nor lost, and it does not count in a mass expiry. */
  | { readonly at: "neverSeen" }
  | { readonly at: "massExpiry"; readonly silentMs: number }
  | { readonly at: "unreachable"; readonly silentMs: number }
  | {
      readonly at: "lost";
      readonly silentMs: number;
      readonly isDeclared: boolean;
      /** True if an operator declared the host lost regardless of its Lease. */
      readonly isForced?: boolean;
    };

export interface LivenessPlan {
  readonly verdicts: ReadonlyMap<string, LivenessVerdict>;
  readonly recheckAfterMs?: number;
}

/**
 * Judges every host. In a mass expiry, no host is judged unreachable: more than two hosts, and more than half of those that
 * count, fell silent together. That includes hosts that have just returned.
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
 * The verdict on one host without reading the others. Undefined if it depends on them: for a host that has expired and is not
 * judged yet.
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
 * True for a host that no agent has joined: its Lease has no holder, and it was never judged or runs no replica. Replicas keep
 * their limit of silence, so a host cannot keep them by emptying its Lease.
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
  /** True if the host was not judged unreachable before this window, so it counts in a mass expiry. */
  readonly counts: boolean;
  /** When the Lease expired, if the host has not returned or has just returned. Such hosts together can be a mass expiry. */
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
  const isUnreachable = reachable === "False" && !isFresh;
  const counts = wasSeen && (!isUnreachable || now - expiresAtMs < SILENCE_MS);
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
  // An operator's declaration applies even in a mass expiry, but only once the Lease has expired.
  if (host.isDeclaredLost === true && silence.isExpired) return { at: "lost", silentMs, isDeclared: true };
  const lost = { at: "lost", silentMs, isDeclared: false } as const;
  const hasExceeded = (limitMs: number): boolean => silentMs >= (host.lostAfterMs ?? limitMs);
  if (silence.isAwaited || (host.reachable === undefined && host.lastChangeMs === undefined))
    return hasExceeded(Number.POSITIVE_INFINITY) ? lost : { at: "neverSeen" };
  if (host.reachable === "False")
    return host.isLost || hasExceeded(DEFAULT_LOST_MS) ? lost : { at: "unreachable", silentMs };
  if (!silence.isExpired) return { at: "counting" };
  return { at: isMass() ? "massExpiry" : "unreachable", silentMs };
}

/** `expiries` must be in ascending order. */
function isMassExpiry({ expiresAtMs }: Silence, counted: number, expiries: readonly number[]): boolean {
  const first = lowerBound(expiries, (atMs) => atMs < expiresAtMs - SILENCE_MS);
  const together = lowerBound(expiries, (atMs) => atMs <= expiresAtMs + SILENCE_MS) - first;
  return together > 2 && together * 2 > counted;
}

/** Time after which the verdict can change without an event. */
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
    // Other hosts may leave the window, which triggers no pass.
    case "massExpiry":
      return SILENCE_MS;
    case "lost":
      return undefined;
    default:
      return verdict satisfies never;
  }
}
