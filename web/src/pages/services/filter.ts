/** Which services the list shows. Pure. */
import type { ServiceRow, StateWord } from "../../../../src/console/rows.ts";

type Level = StateWord["level"];

/** In the order of the chips. */
export const LEVELS = ["ok", "busy", "warn", "bad", "idle"] as const satisfies readonly Level[];

export function countLevels(rows: readonly ServiceRow[]): Readonly<Record<Level, number>> {
  const counts = { ok: 0, busy: 0, warn: 0, bad: 0, idle: 0 };
  for (const { state } of rows) counts[state.level] += 1;
  return counts;
}

/** Every word must occur; no level means all. */
export function isShown(row: ServiceRow, words: string, levels: readonly string[]): boolean {
  if (levels.length > 0 && !levels.includes(row.state.level)) return false;
  if (words.trim() === "") return true;
  const { namespace, name, model, quantization, runtime, hosts, state, attention } = row;
  const text = [namespace, name, model, quantization, runtime, ...hosts, state.word, attention?.reason ?? ""]
    .join(" ")
    .toLowerCase();
  return words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

/** Why it does not serve; empty for a service that does. */
export function reasonOf({ state, message, attention }: ServiceRow): string {
  if (attention !== undefined) return attention.message;
  return state.level === "ok" ? "" : message;
}
