/** Follows the usage records of all gateways in this month, for budgets. */
import { LABEL_USAGE, LABEL_USAGE_MONTH } from "../../src/api/group.ts";
import { chargedTokens, type UsageRow } from "../../src/gateway/usage.ts";
import { readUsageRecord } from "../../src/gateway/usage-csv.ts";
import { dayOf, monthOf } from "../../src/gateway/usage-record.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { CONFIG_MAPS } from "../../src/kube/kinds.ts";
import type { ConfigMap } from "../../src/kube/objects.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../../src/util/ports.ts";

/** A record may have 1 MiB. */
const PAGE_SIZE = 20;

export interface RecordedDay {
  readonly name: string;
  readonly day: string;
  /** By key. */
  readonly tokens: ReadonlyMap<string, number>;
}

export interface WatchedRecords {
  /** The records of the month. After the end of a month, the watch of the next one starts with the first call. */
  readonly records: (nowMs: number) => Iterable<RecordedDay>;
}

export function watchRecords(ports: {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly namespace: string;
}): WatchedRecords {
  const parsed = new WeakMap<ConfigMap, RecordedDay>();
  let current: {
    readonly month: string;
    readonly end: AbortController;
    readonly days: Map<string, RecordedDay>;
  };
  const start = (month: string): typeof current => {
    const end = new AbortController();
    const days = new Map<string, RecordedDay>();
    startReflector<ConfigMap>({
      ...ports,
      kind: CONFIG_MAPS,
      labelSelector: `${LABEL_USAGE}=true,${LABEL_USAGE_MONTH}=${month}`,
      signal: AbortSignal.any([ports.signal, end.signal]),
      pageSize: PAGE_SIZE,
      // Only the sums stay in memory.
      keep: (record) => {
        const read = readUsageRecord(record);
        const { name } = record.metadata;
        if (read !== undefined) parsed.set(record, { name, day: read.day, tokens: tokensByKey(read.rows) });
        delete record.data;
        return record;
      },
      onChange: (_key, record, before) => {
        const read = record && parsed.get(record);
        if (read === undefined) days.delete((record ?? before)?.metadata.name ?? "");
        else days.set(read.name, read);
      },
    });
    return { month, end, days };
  };
  current = start(monthOf(dayOf(ports.clock.nowMs())));
  return {
    records: (nowMs) => {
      const month = monthOf(dayOf(nowMs));
      if (month !== current.month) {
        current.end.abort();
        current = start(month);
      }
      return current.days.values();
    },
  };
}

function tokensByKey(rows: readonly UsageRow[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const row of rows) sums.set(row.key, chargedTokens(row) + (sums.get(row.key) ?? 0));
  return sums;
}
