/** Usage of the gateway: rows of counters, sums over them, and their records as comma-separated values. Imports nothing outside this folder but labels, because the console's pages use it too. */
import { LABEL_USAGE_DAY } from "../api/group.ts";

/** The dimensions of a row. */
export interface UsageOf {
  /** Id of the key, or of the user of Kubernetes. */
  readonly key: string;
  readonly namespace: string;
  /** Name of the service. */
  readonly model: string;
  /** Host or node. */
  readonly host: string;
}

export interface UsageCounts {
  readonly requests: number;
  /** Requests whose tokens are estimated because the client left early. */
  readonly estimatedRequests: number;
  /** Tokens of the prompts, including cached ones. */
  readonly tokensIn: number;
  readonly tokensOut: number;
  readonly tokensCached: number;
}

export type UsageRow = UsageOf & UsageCounts;

export const DIMENSIONS = ["key", "model", "namespace", "host"] as const;
export type UsageDimension = (typeof DIMENSIONS)[number];
const COUNTS = [
  "requests",
  "estimatedRequests",
  "tokensIn",
  "tokensOut",
  "tokensCached",
] as const satisfies readonly (keyof UsageCounts)[];

export function addCounts(a: UsageCounts, b: UsageCounts): UsageCounts {
  return {
    requests: a.requests + b.requests,
    estimatedRequests: a.estimatedRequests + b.estimatedRequests,
    tokensIn: a.tokensIn + b.tokensIn,
    tokensOut: a.tokensOut + b.tokensOut,
    tokensCached: a.tokensCached + b.tokensCached,
  };
}

/** One row per combination of the dimensions. The other dimensions are empty. */
export function sumUsage(
  rows: Iterable<UsageRow>,
  by: readonly UsageDimension[] = DIMENSIONS,
): readonly UsageRow[] {
  const sums = new Map<string, UsageRow>();
  for (const row of rows) {
    const of = { key: "", namespace: "", model: "", host: "" };
    for (const dimension of by) of[dimension] = row[dimension];
    const id = usageId(of);
    const sum = sums.get(id);
    sums.set(id, { ...of, ...(sum === undefined ? countsOf(row) : addCounts(sum, row)) });
  }
  return [...sums.values()];
}

/** Identifies the row of these dimensions. */
export function usageId({ key, namespace, model, host }: UsageOf): string {
  return [key, namespace, model, host].join("\0");
}

/** Tokens that count against limits and budgets. */
export function chargedTokens({ tokensIn, tokensOut }: Pick<UsageCounts, "tokensIn" | "tokensOut">): number {
  return tokensIn + tokensOut;
}

function countsOf({ requests, estimatedRequests, tokensIn, tokensOut, tokensCached }: UsageRow): UsageCounts {
  return { requests, estimatedRequests, tokensIn, tokensOut, tokensCached };
}

/** Key of a record in the data of its ConfigMap. */
export const USAGE_FIELD = "usage.csv";
const COLUMNS = [...DIMENSIONS, ...COUNTS] as const;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** The fields of a ConfigMap that are read. */
export interface UsageConfigMap {
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
  readonly data?: Readonly<Record<string, string>>;
}

/** All columns, with a header. */
export function renderUsageCsv(rows: Iterable<UsageRow>): string {
  return renderCsv([COLUMNS, ...Array.from(rows, (row) => COLUMNS.map((column) => String(row[column])))]);
}

/** Undefined if the ConfigMap is not a usage record. Lines with invalid counts are dropped. */
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

/** Comma-separated values of RFC 4180. */
export function renderCsv(lines: Iterable<readonly string[]>): string {
  let text = "";
  for (const line of lines) text += `${line.map(quoted).join(",")}\n`;
  return text;
}

/** Never fails: an unbalanced quote ends with the text. Empty lines are dropped. */
export function parseCsv(text: string): readonly (readonly string[])[] {
  const lines: string[][] = [];
  let line: string[] = [];
  for (const [, quotedField, plainField, end] of text.matchAll(FIELD)) {
    line.push(quotedField === undefined ? (plainField ?? "") : quotedField.replaceAll('""', '"'));
    if (end === ",") continue;
    if (line.length > 1 || line[0] !== "") lines.push(line);
    line = [];
  }
  return lines;
}

/** One field and the separator after it. */
const FIELD = /(?:"((?:[^"]|"")*)"?|([^,\r\n]*))(,|\r?\n|$)/g;

function quoted(field: string): string {
  return /[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field;
}
