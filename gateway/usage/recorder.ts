/** Records usage: in memory immediately, and every 30 s and at shutdown in one ConfigMap per day. */
import { LABEL_USAGE, LABEL_USAGE_MONTH } from "../../src/api/group.ts";
import {
  chargedTokens,
  readUsageRecord,
  type UsageCounts,
  type UsageOf,
  type UsageRow,
} from "../../src/gateway/usage.ts";
import { dayOf, monthOf } from "../../src/gateway/usage-record.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { CONFIG_MAPS } from "../../src/kube/kinds.ts";
import type { ConfigMap } from "../../src/kube/objects.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { repeat } from "../../src/util/repeat.ts";
import { createSerializer } from "../../src/util/serializer.ts";
import type { LogPosition } from "../envoy/follow-log.ts";
import type { Spent, TokenUsage } from "../limits/limits.ts";
import type { CheckpointFile } from "./checkpoint.ts";
import { createDayRecord, createUsageCounters, type DayRecord } from "./day-record.ts";

export interface UsageRecorder {
  /** Log position up to which requests are counted. Must be called after the requests before it were added. */
  readonly readUpTo: (position: LogPosition) => void;
  /** Counts one finished request. */
  readonly add: (of: UsageOf, usage: TokenUsage) => void;
  /** Tokens of the key on all gateways: exact for this one, up to 30 s old for the others. */
  readonly spent: (key: string, nowMs: number) => Spent;
  /** Usage since the start of this process, for metrics. */
  readonly sinceStart: () => readonly UsageRow[];
  /** Number of failed writes. */
  readonly writeFailures: () => number;
  /** Writes all usage so far to the records. */
  readonly flush: () => Promise<void>;
  /** Removes old records, once a month. */
  readonly clean: () => Promise<void>;
}

export interface RecorderPorts {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly log: Log;
  /** Stops the periodic writes. `flush` works afterwards, too. */
  readonly signal: AbortSignal;
  readonly namespace: string;
  /** Name of this gateway, such as that of its pod. */
  readonly gateway: string;
  readonly newId: () => string;
  readonly watched: WatchedRecords;
  readonly checkpoint: CheckpointFile;
}

const WRITE_MS = 30_000;
const KEEP_MS = 1_000;
/** Records are kept for the current month and this many before it. */
const MONTHS_KEPT = 3;

export function createUsageRecorder(ports: RecorderPorts): UsageRecorder {
  const { clock, log, watched, checkpoint } = ports;
  let { position } = checkpoint.found;
  const days = new Map<string, DayRecord>();
  const serializeKeep = createSerializer();
  const keep = (): Promise<boolean> =>
    serializeKeep(() => {
      const unwritten = [...days.values()].filter((one) => one.hasUnwritten()).map((one) => one.unwritten());
      return checkpoint.save({ position, days: unwritten });
    });
  for (const found of checkpoint.found.days)
    days.set(found.day, createDayRecord({ ...ports, day: found.day, found, keep }));
  const total = createUsageCounters();
  const serialize = createSerializer();
  let failures = 0;
  let hasFailed = false;
  let cleanedMonth = "";
  const dayRecord = (nowMs: number): DayRecord => {
    const day = dayOf(nowMs);
    const found = days.get(day) ?? createDayRecord({ ...ports, day, keep });
    days.set(day, found);
    return found;
  };
  const writeDay = async (record: DayRecord): Promise<void> => {
    if (record.hasUnwritten()) {
      const failure = await record.write();
      if (failure !== undefined) {
        failures += 1;
        if (!hasFailed)
          log.warn({ record: record.name, failure }, "cannot write the usage record; retried automatically");
        hasFailed = true;
        return;
      }
      hasFailed = false;
    }
    // The watch has the sums of earlier days.
    if (record.day !== dayOf(clock.nowMs())) days.delete(record.day);
  };
  const flush = (): Promise<void> =>
    serialize(async () => {
      for (const record of [...days.values()]) await writeDay(record);
      await keep();
    });
  const clean = async (): Promise<void> => {
    const month = monthOf(dayOf(clock.nowMs()));
    if (month === cleanedMonth) return;
    if (await removeOldRecords(ports, month)) cleanedMonth = month;
  };
  repeat(ports, WRITE_MS, async () => {
    await flush();
    await clean();
  });
  repeat(ports, KEEP_MS, async () => {
    await keep();
  });
  return {
    readUpTo: (read) => {
      position = read;
    },
    add: (of, usage) => {
      const counts = countsOf(usage);
      dayRecord(clock.nowMs()).add(of, counts);
      total.add(of, counts);
    },
    spent: (key, nowMs) => spentOf(key, nowMs, days, watched),
    sinceStart: () => total.rows(),
    writeFailures: () => failures,
    flush,
    clean,
  };
}

/** A record of this process includes unwritten usage, and replaces its older copy in the watch. */
function spentOf(
  key: string,
  nowMs: number,
  own: ReadonlyMap<string, DayRecord>,
  watched: WatchedRecords,
): Spent {
  const today = dayOf(nowMs);
  const sum = { today: 0, thisMonth: 0 };
  const count = (day: string, tokens: number): void => {
    if (monthOf(day) === monthOf(today)) sum.thisMonth += tokens;
    if (day === today) sum.today += tokens;
  };
  const replaced = new Set<string>();
  for (const { day, name, tokens } of own.values()) {
    const { unwritten, written } = tokens(key);
    count(day, unwritten + (written ?? 0));
    if (written !== undefined) replaced.add(name);
  }
  for (const { name, day, tokens } of watched.records(nowMs))
    if (!replaced.has(name)) count(day, tokens.get(key) ?? 0);
  return sum;
}

function countsOf({ tokensIn, tokensOut, cached, isEstimated }: TokenUsage): UsageCounts {
  return {
    requests: 1,
    estimatedRequests: isEstimated ? 1 : 0,
    tokensIn,
    tokensOut,
    tokensCached: cached,
  };
}

/** Each gateway removes old records of all gateways. False if it must be repeated. */
async function removeOldRecords({ client, namespace, log }: RecorderPorts, month: string): Promise<boolean> {
  const kept = Array.from({ length: MONTHS_KEPT + 1 }, (_, back) => monthBefore(month, back)).join(",");
  const labelSelector = `${LABEL_USAGE}=true,${LABEL_USAGE_MONTH} notin (${kept})`;
  const old = await client.list(CONFIG_MAPS, { namespace, labelSelector });
  if (!old.ok) return false;
  for (const { metadata } of old.value.items) {
    const removed = await client.remove(CONFIG_MAPS, { namespace, name: metadata.name });
    if (!removed.ok && removed.error.kind !== "notFound") return false;
  }
  if (old.value.items.length > 0) log.info({ records: old.value.items.length }, "removed old usage records");
  return true;
}

function monthBefore(month: string, back: number): string {
  const [year = 0, number = 1] = month.split("-").map(Number);
  return monthOf(dayOf(Date.UTC(year, number - 1 - back)));
}

/** A record can have 1 MiB. */
const PAGE_SIZE = 20;

export interface RecordedDay {
  readonly name: string;
  readonly day: string;
  /** By key. */
  readonly tokens: ReadonlyMap<string, number>;
}

export interface WatchedRecords {
  /** The records of the current month. The first call in a new month starts its watch. */
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
