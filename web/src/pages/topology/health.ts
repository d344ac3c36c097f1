/** The filter by state, for services and machines alike. Pure. */
import type { StateWord } from "../../../../src/console/rows.ts";

export type Health = "ok" | "busy" | "attention" | "idle";

export const HEALTHS: readonly Health[] = ["attention", "busy", "ok", "idle"];

interface Stated {
  readonly state: StateWord;
}

/** Everything passes an empty choice. */
export function isOfHealth(chosen: readonly string[]) {
  return (row: Stated): boolean => chosen.length === 0 || chosen.includes(healthOf(row));
}

export function countHealths(rows: readonly Stated[]): Readonly<Record<Health, number>> {
  const counts = { ok: 0, busy: 0, attention: 0, idle: 0 };
  for (const row of rows) counts[healthOf(row)] += 1;
  return counts;
}

function healthOf({ state: { level } }: Stated): Health {
  return level === "bad" || level === "warn" ? "attention" : level;
}
