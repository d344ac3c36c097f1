/** Counts usage into rows, up to a size that fits into a ConfigMap. Pure. */
import {
  addCounts,
  chargedTokens,
  type UsageCounts,
  type UsageOf,
  type UsageRow,
  usageId,
} from "../../src/gateway/usage.ts";

/** A ConfigMap holds 1 MiB. Up to here, rows have all dimensions. */
const DETAILED_BYTES = 600_000;
/** Up to here, new rows have only a key. Later usage is counted together. */
const KEYED_BYTES = 850_000;
/** Five counts, separators and quotes in a row. */
const COUNTS_BYTES = 80;
export const OTHER = "(other)";

export interface UsageCounters {
  readonly add: (of: UsageOf, counts: UsageCounts) => void;
  readonly rows: () => readonly UsageRow[];
  /** Tokens of the key that limits and budgets count. */
  readonly tokens: (key: string) => number;
}

export function createUsageCounters(
  from: Iterable<UsageRow> = [],
  bounds = { detailedBytes: DETAILED_BYTES, keyedBytes: KEYED_BYTES },
): UsageCounters {
  const byId = new Map<string, UsageRow>();
  const tokensByKey = new Map<string, number>();
  let bytes = 0;
  const rowFor = (of: UsageOf): UsageOf => {
    if (byId.has(usageId(of))) return of;
    const keyed = { key: of.key, namespace: OTHER, model: OTHER, host: OTHER };
    if (bytes + sizeOf(of) <= bounds.detailedBytes) return of;
    if (byId.has(usageId(keyed)) || bytes + sizeOf(keyed) <= bounds.keyedBytes) return keyed;
    return { ...keyed, key: OTHER };
  };
  const add = (of: UsageOf, counts: UsageCounts): void => {
    const { key, namespace, model, host } = rowFor(of);
    const row = { key, namespace, model, host };
    const found = byId.get(usageId(row));
    if (found === undefined) bytes += sizeOf(row);
    byId.set(usageId(row), { ...row, ...addCounts(found ?? NONE, counts) });
    tokensByKey.set(key, chargedTokens(counts) + (tokensByKey.get(key) ?? 0));
  };
  for (const row of from) add(row, row);
  return { add, rows: () => [...byId.values()], tokens: (key) => tokensByKey.get(key) ?? 0 };
}

const NONE: UsageCounts = {
  requests: 0,
  estimatedRequests: 0,
  tokensIn: 0,
  tokensOut: 0,
  tokensCached: 0,
};

function sizeOf(of: UsageOf): number {
  return Buffer.byteLength(usageId(of)) + COUNTS_BYTES;
}
