/** The comma-separated values of a usage record. Pure, and without other modules than those of this folder: the console's pages use it too. Reading is total. */
import { LABEL_USAGE_DAY } from "../api/group.ts";
import { parseCsv, renderCsv } from "./csv.ts";
import { COUNTS, DIMENSIONS, type UsageRow } from "./usage.ts";

/** Key of the values in the ConfigMap. */
export const USAGE_FIELD = "usage.csv";
const COLUMNS = [...DIMENSIONS, ...COUNTS] as const;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** The part of a ConfigMap that is read. */
export interface UsageConfigMap {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
}

/** All columns, with a header. */
export function renderUsageCsv(rows: Iterable<UsageRow>): string {
  return renderCsv([COLUMNS, ...Array.from(rows, (row) => COLUMNS.map((column) => String(row[column])))]);
}

/** Undefined if the ConfigMap is not a usage record. Lines without valid counts are left out. */
export function readUsageRecord({ metadata, data }: UsageConfigMap): UsageRecord | undefined {
  const day = metadata.labels?.[LABEL_USAGE_DAY] ?? "";
  const text = data?.[USAGE_FIELD];
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
