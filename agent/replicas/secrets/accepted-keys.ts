/** The API keys that a gate accepts: those of the Secret and, for a while, those that have left it. Pure. */
import { nonEmptyLines } from "./secrets.ts";

export interface AcceptedKeys {
  /** In the Secret, as it was last read. */
  readonly current: readonly string[];
  /** No longer there, and until when each is accepted: the last to leave first. */
  readonly retired: ReadonlyMap<string, number>;
}

/** As many as a Secret may have: each request is compared with all of them. */
const MAX_RETIRED = 1_000;

/** Clients learn of a new key at some time between its first and its last host: both are accepted meanwhile. */
export function acceptKeys(
  before: AcceptedKeys,
  keys: readonly string[],
  { nowMs, overlapMs }: { readonly nowMs: number; readonly overlapMs: number },
): AcceptedKeys {
  const current = new Set(keys);
  const latestMs = nowMs + overlapMs;
  const retired = [...before.current.map((key) => [key, latestMs] as const), ...before.retired]
    .filter(([key, untilMs]) => !current.has(key) && untilMs > nowMs)
    // A clock that was set back must not prolong it.
    .map(([key, untilMs]) => [key, Math.min(untilMs, latestMs)] as const);
  return { current: [...current], retired: new Map(retired.slice(0, MAX_RETIRED)) };
}

/** The gate's file has all of them; beside it a file says which have left. */
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
