/** The record of one day: counts in memory, and writes its ConfigMap so that no usage is lost or counted twice. */
import {
  addCounts,
  chargedTokens,
  readUsageRecord,
  type UsageCounts,
  type UsageOf,
  type UsageRow,
  usageId,
} from "../../src/gateway/usage.ts";
import { recordName, renderUsageRecord } from "../../src/gateway/usage-record.ts";
import { CONFIG_MAPS } from "../../src/kube/kinds.ts";
import type { ConfigMap } from "../../src/kube/objects.ts";
import type { ApiFailure, ApiResult, KubeClient } from "../../src/kube/types.ts";
import type { UnwrittenDay } from "./checkpoint.ts";

export interface DayRecord {
  readonly day: string;
  readonly name: string;
  readonly add: (of: UsageOf, counts: UsageCounts) => void;
  readonly hasUnwritten: () => boolean;
  /** Usage for the next process to write, if this one is killed. */
  readonly unwritten: () => UnwrittenDay;
  /** Undefined once everything is written; otherwise the failure, after which a later call continues. */
  readonly write: () => Promise<ApiFailure | undefined>;
  /** Tokens of the key that are not in the ConfigMap yet, and those in it; `written` is undefined until this process has read it. */
  readonly tokens: (key: string) => { readonly unwritten: number; readonly written: number | undefined };
}

/** Id of the last write: after a timeout, a read shows whether the write was stored. */
const ANNOTATION_WRITE = "metalbridge.dev/usage-write";
/** Another process of the same name may write concurrently. */
const ATTEMPTS = 4;

const NOT_KEPT: ApiFailure = {
  kind: "unexpected",
  status: 0,
  reason: "",
  message: "the checkpoint cannot be written",
};

interface Pending {
  readonly id: string;
  readonly counters: UsageCounters;
}

export function createDayRecord(ports: {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly gateway: string;
  readonly day: string;
  /** Returns a unique id. */
  readonly newId: () => string;
  /** Usage that the previous process did not write. */
  readonly found?: UnwrittenDay | undefined;
  /** Called before each write. If it resolves to false, the write is deferred. */
  readonly keep: () => Promise<boolean>;
}): DayRecord {
  const { client, namespace, gateway, day, newId, found, keep } = ports;
  const name = recordName(gateway, day);
  let counters = createUsageCounters(found?.rows);
  /** A write whose result is unknown. */
  let pending: Pending | undefined = found?.pending && {
    id: found.pending.id,
    counters: createUsageCounters(found.pending.rows),
  };
  let stored: { readonly object: ConfigMap | undefined; readonly counters: UsageCounters } | undefined;

  const read = async (): Promise<ApiFailure | undefined> => {
    const found = await client.get(CONFIG_MAPS, { namespace, name });
    if (!found.ok && found.error.kind !== "notFound") return found.error;
    const object = found.ok ? found.value : undefined;
    stored = { object, counters: createUsageCounters(object && readUsageRecord(object)?.rows) };
    if (pending !== undefined && object?.metadata.annotations?.[ANNOTATION_WRITE] !== pending.id)
      counters = createUsageCounters([...pending.counters.rows(), ...counters.rows()]);
    pending = undefined;
    return undefined;
  };
  const attempt = async (): Promise<ApiFailure | undefined> => {
    const failure = stored === undefined ? await read() : undefined;
    if (failure !== undefined || stored === undefined) return failure;
    const { object } = stored;
    const id = newId();
    const sum = createUsageCounters([...stored.counters.rows(), ...counters.rows()]);
    pending = { id, counters };
    counters = createUsageCounters();
    if (!(await keep())) {
      // The next read shows that this write was not stored.
      stored = undefined;
      return NOT_KEPT;
    }
    const record = renderUsageRecord({ namespace, gateway, day }, sum.rows());
    const result = await put(client, object, withMark(record, id));
    if (!result.ok) {
      stored = undefined;
      return result.error;
    }
    stored = { object: result.value, counters: sum };
    pending = undefined;
    return undefined;
  };
  return {
    day,
    name,
    add: (of, counts) => counters.add(of, counts),
    hasUnwritten: () => pending !== undefined || counters.rows().length > 0,
    write: async () => {
      let failure: ApiFailure | undefined;
      for (let round = 0; round < ATTEMPTS; round += 1) {
        failure = await attempt();
        if (failure === undefined || !["conflict", "alreadyExists", "notFound"].includes(failure.kind)) break;
      }
      return failure;
    },
    unwritten: () => ({
      day,
      rows: counters.rows(),
      pending: pending && { id: pending.id, rows: pending.counters.rows() },
    }),
    tokens: (key) => ({
      unwritten: counters.tokens(key) + (pending?.counters.tokens(key) ?? 0),
      written: stored?.counters.tokens(key),
    }),
  };
}

function put(
  client: KubeClient,
  before: ConfigMap | undefined,
  after: ConfigMap,
): Promise<ApiResult<ConfigMap>> {
  if (before === undefined) return client.create(CONFIG_MAPS, after);
  const { resourceVersion, uid } = before.metadata;
  const metadata = { ...after.metadata, resourceVersion: resourceVersion ?? "", uid: uid ?? "" };
  return client.update(CONFIG_MAPS, { ...after, metadata });
}

function withMark(record: ConfigMap, id: string): ConfigMap {
  return { ...record, metadata: { ...record.metadata, annotations: { [ANNOTATION_WRITE]: id } } };
}

/** A ConfigMap holds 1 MiB. Up to this size, new rows have all dimensions. */
const DETAILED_BYTES = 600_000;
/** Up to this size, new rows have only a key. Beyond it, usage is added to one row. */
const KEYED_BYTES = 850_000;
/** Size of a row without its dimensions. */
const COUNTS_BYTES = 80;
export const OTHER = "(other)";

export interface UsageCounters {
  readonly add: (of: UsageOf, counts: UsageCounts) => void;
  readonly rows: () => readonly UsageRow[];
  /** Tokens of the key that count against limits and budgets. */
  readonly tokens: (key: string) => number;
}

/** Counts usage into rows whose total size fits into a ConfigMap. */
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
