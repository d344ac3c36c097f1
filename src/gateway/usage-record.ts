/** The usage of one gateway on one day, as a ConfigMap with comma-separated values. Reading is total. */
import { LABEL_USAGE, LABEL_USAGE_DAY, LABEL_USAGE_MONTH } from "../api/group.ts";
import type { ConfigMap } from "../kube/objects.ts";
import { hash } from "../util/hash.ts";
import { parseCsv, renderCsv } from "./csv.ts";
import { COUNTS, DIMENSIONS, type UsageRow } from "./usage.ts";

const FIELD = "usage.csv";
const COLUMNS = [...DIMENSIONS, ...COUNTS] as const;
const DAY = /^\d{4}-\d{2}-\d{2}$/;
/** Maximum length of an object's name, without the rest of a record's name. */
const GATEWAY_NAME_MAX = 200;

/** A day in UTC, as in 2026-11-27. */
export function dayOf(nowMs: number): string {
  return new Date(nowMs).toISOString().slice(0, 10);
}

/** The month of a day, as in 2026-11. */
export function monthOf(day: string): string {
  return day.slice(0, 7);
}

/** The gateway's name may be that of a machine, such as `Adas-Mac.local`. */
export function recordName(gateway: string, day: string): string {
  const name = gateway
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replace(/-$/, "");
  return `gateway-usage-${day}-${name === "" || name.length > GATEWAY_NAME_MAX ? hash(gateway) : name}`;
}

export function renderUsageRecord(
  { namespace, gateway, day }: { readonly namespace: string; readonly gateway: string; readonly day: string },
  rows: Iterable<UsageRow>,
): ConfigMap {
  const labels = { [LABEL_USAGE]: "true", [LABEL_USAGE_DAY]: day, [LABEL_USAGE_MONTH]: monthOf(day) };
  return {
    metadata: { namespace, name: recordName(gateway, day), labels },
    data: { [FIELD]: renderUsageCsv(rows) },
  };
}

/** All columns, with a header. */
export function renderUsageCsv(rows: Iterable<UsageRow>): string {
  return renderCsv([COLUMNS, ...Array.from(rows, (row) => COLUMNS.map((column) => String(row[column])))]);
}

/** Undefined if the ConfigMap is no record of usage. Lines without valid counts are left out. */
export function readUsageRecord({ metadata, data }: ConfigMap): UsageRecord | undefined {
  const day = metadata.labels?.[LABEL_USAGE_DAY] ?? "";
  const text = data?.[FIELD];
  if (!DAY.test(day) || text === undefined) return undefined;
  const [header = [], ...lines] = parseCsv(text);
  const rows = lines.flatMap((line) => {
    const field = (column: (typeof COLUMNS)[number]) => line[header.indexOf(column)] ?? "";
    const count = (column: (typeof COUNTS)[number]) => Number(field(column));
    const row: UsageRow = {
      key: field("key"),
      namespace: field("namespace"),
      model: field("model"),
      host: field("host"),
      requests: count("requests"),
      estimatedRequests: count("estimatedRequests"),
      tokensIn: count("tokensIn"),
      tokensOut: count("tokensOut"),
      tokensCached: count("tokensCached"),
    };
    return COUNTS.every((name) => Number.isSafeInteger(row[name]) && row[name] >= 0) ? [row] : [];
  });
  return { day, rows };
}

export interface UsageRecord {
  readonly day: string;
  readonly rows: readonly UsageRow[];
}
