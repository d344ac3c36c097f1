/** What the grid of cells needs besides its rows. Pure. */
import type { HostRow } from "../../../../../src/console/rows.ts";
import type { Level } from "../graph/graph.ts";

export interface LegendEntry {
  readonly word: string;
  readonly level: Level;
  readonly count: number;
}

/** The states of the machines in their own words, most frequent first. */
export function legendOf(hosts: Iterable<Pick<HostRow, "state">>): readonly LegendEntry[] {
  const byWord = new Map<string, LegendEntry>();
  for (const { state } of hosts) {
    const { word, level } = state;
    byWord.set(word, { word, level, count: (byWord.get(word)?.count ?? 0) + 1 });
  }
  return [...byWord.values()].sort((a, b) => b.count - a.count || (a.word < b.word ? -1 : 1));
}

/** The cell that a key leads to from `index`; undefined for other keys. */
export function cellAfter(key: string, index: number, count: number, perRow: number): number | undefined {
  const steps: Readonly<Record<string, number>> = {
    ArrowRight: 1,
    ArrowLeft: -1,
    ArrowDown: perRow,
    ArrowUp: -perRow,
    Home: -count,
    End: count,
  };
  const step = steps[key];
  return step === undefined ? undefined : Math.min(count - 1, Math.max(0, index + step));
}

/** Claimed of what engines may use, from 0 to 1. */
export function claimedShare({
  claims,
  budgetBytes,
  reserveBytes,
}: Pick<HostRow, "claims" | "budgetBytes" | "reserveBytes">): number {
  const usable = budgetBytes - reserveBytes;
  if (usable <= 0) return 0;
  return Math.min(1, claims.reduce((sum, { bytes }) => sum + bytes, 0) / usable);
}
