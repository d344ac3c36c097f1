/** The API keys that a gate accepts: those of the Secret and, for some time, those that were removed from it. Pure. */
import { nonEmptyLines } from "./secrets.ts";

export interface AcceptedKeys {
  /** Keys of the Secret when it was last read. */
  readonly current: readonly string[];
  /** Removed keys, and until when each is accepted; the last removed comes first. */
  readonly retired: ReadonlyMap<string, number>;
}

/** The same limit as for a Secret: each request is compared with all keys. */
const MAX_RETIRED = 1_000;

/** Hosts and clients pick up a new key at different times, so the old key is accepted meanwhile. */
export function acceptKeys(
  before: AcceptedKeys,
  keys: readonly string[],
  { nowMs, overlapMs }: { readonly nowMs: number; readonly overlapMs: number },
): AcceptedKeys {
  const current = new Set(keys);
  const latestMs = nowMs + overlapMs;
  const retired = [...before.current.map((key) => [key, latestMs] as const), ...before.retired]
    .filter(([key, untilMs]) => !current.has(key) && untilMs > nowMs)
    // A clock that was set back must not extend the time.
    .map(([key, untilMs]) => [key, Math.min(untilMs, latestMs)] as const);
  return { current: [...current], retired: new Map(retired.slice(0, MAX_RETIRED)) };
}

/** The gate's file contains all accepted keys; a second file lists the removed ones. */
export function parseAccepted(accepted: string, retired: string): AcceptedKeys {
  const times = nonEmptyLines(retired).flatMap((line): [string, number][] => {
    const [, untilMs, key] = /^(\d{1,15}) (.+)$/s.exec(line) ?? [];
    return untilMs === undefined || key === undefined ? [] : [[key, Number(untilMs)]];
  });
  const retiredUntil = new Map(times);
  return { current: nonEmptyLines(accepted).filter((key) => !retiredUntil.has(key)), retired: retiredUntil };
}

export function renderAccepted({ current, retired }: AcceptedKeys): {
  readonly accepted: string;
  readonly retired: string;
} {
  return {
    accepted: textOf([...current, ...retired.keys()]),
    retired: textOf([...retired].map(([key, untilMs]) => `${untilMs} ${key}`)),
  };
}

function textOf(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}
