/** The API keys that a gate accepts: those of the Secret and, for a while, those that have left it. Pure. */
import { nonEmptyLines } from "./secrets.ts";

export interface AcceptedKeys {
  /** In the Secret, as it was last read. */
  readonly current: readonly string[];
  /** No longer there, and until when each is accepted: the last to leave first. */
  readonly left: ReadonlyMap<string, number>;
}

/** As many as a Secret may have: each request is compared with all of them. */
const MAX_LEFT = 1_000;

/** Clients learn of a new key at some time between its first and its last host: both are accepted meanwhile. */
export function acceptKeys(
  before: AcceptedKeys,
  keys: readonly string[],
  { nowMs, overlapMs }: { readonly nowMs: number; readonly overlapMs: number },
): AcceptedKeys {
  const current = new Set(keys);
  const latestMs = nowMs + overlapMs;
  const left = [...before.current.map((key) => [key, latestMs] as const), ...before.left]
    .filter(([key, untilMs]) => !current.has(key) && untilMs > nowMs)
    // A clock that was set back must not prolong it.
    .map(([key, untilMs]) => [key, Math.min(untilMs, latestMs)] as const);
  return { current: [...current], left: new Map(left.slice(0, MAX_LEFT)) };
}

/** The gate's file has all of them; beside it a file says which have left. */
export function parseAccepted(accepted: string, left: string): AcceptedKeys {
  const times = nonEmptyLines(left).flatMap((line): [string, number][] => {
    const [, untilMs, key] = /^(\d{1,15}) (.+)$/s.exec(line) ?? [];
    return untilMs === undefined || key === undefined ? [] : [[key, Number(untilMs)]];
  });
  const gone = new Map(times);
  return { current: nonEmptyLines(accepted).filter((key) => !gone.has(key)), left: gone };
}

export function renderAccepted({ current, left }: AcceptedKeys): {
  readonly accepted: string;
  readonly left: string;
} {
  return {
    accepted: textOf([...current, ...left.keys()]),
    left: textOf([...left].map(([key, untilMs]) => `${untilMs} ${key}`)),
  };
}

function textOf(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join("");
}
