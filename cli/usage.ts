/** `metalbridge usage`: sums the usage records of the gateway. */
import { type Command, InvalidArgumentError } from "commander";
import { LABEL_USAGE } from "../src/api/group.ts";
import {
  chargedTokens,
  DIMENSIONS,
  readUsageRecord,
  renderCsv,
  sumUsage,
  type UsageCounts,
  type UsageDimension,
  type UsageRecord,
} from "../src/gateway/usage.ts";
import { dayOf } from "../src/gateway/usage-record.ts";
import { CONFIG_MAPS } from "../src/kube/kinds.ts";
import { compareText } from "../src/util/text.ts";
import { withCluster } from "./cluster/cluster.ts";
import { listAll } from "./cluster/find.ts";
import { outputFlag } from "./cluster/flags.ts";
import { addGatewayFlags, type KeyFlags } from "./key/flags.ts";
import { printJson, printLine, writeOut } from "./program/output.ts";
import { formatTable } from "./program/table.ts";

interface UsageFlags extends KeyFlags {
  readonly since: string;
  readonly by: readonly Grouping[];
  readonly output: "text" | "csv" | "json";
}

const DAY_MS = 86_400_000;

/** Options and action of the verb. */
export function configureUsage(command: Command): void {
  const monthStart = `${dayOf(Date.now()).slice(0, 7)}-01`;
  addGatewayFlags(command)
    .option(
      "--since <day>",
      "first day in UTC, as 2026-11-01 or 7d (default: start of the month)",
      parseSince,
    )
    .option("--by <names>", `${GROUPINGS.join(", ")}; several, comma-separated`, parseGroupings, [
      "key",
    ] as const)
    .addOption(outputFlag("csv"))
    .action((flags: Omit<UsageFlags, "since"> & { readonly since?: string }) =>
      reportUsage({ ...flags, since: flags.since ?? monthStart }),
    );
}

async function reportUsage({ since, by, output, ...flags }: UsageFlags): Promise<void> {
  await withCluster("usage", flags, async (cluster) => {
    const { namespace } = cluster;
    const found = await listAll(cluster, CONFIG_MAPS, { namespace, labelSelector: `${LABEL_USAGE}=true` });
    const records = found
      .flatMap((object) => readUsageRecord(object) ?? [])
      .filter(({ day }) => day >= since);
    const lines = groupUsage(records, by);
    if (output === "json") return printJson(lines);
    if (output === "csv") return writeOut(renderUsageLines(lines, by));
    printLine(
      lines.length === 0 ? `no usage since ${since} in namespace ${namespace}` : renderUsageTable(lines, by),
    );
  });
}

function parseSince(text: string): string {
  const [, days] = /^(\d{1,4})d$/.exec(text) ?? [];
  if (days !== undefined) return dayOf(Date.now() - Number(days) * DAY_MS);
  if (/^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text))) return text;
  throw new InvalidArgumentError("It must be a day such as 2026-11-01, or a number of days such as 7d.");
}

function parseGroupings(text: string): readonly Grouping[] {
  return text.split(",").map((word) => {
    const found = GROUPINGS.find((name) => name === word);
    if (found === undefined) throw new InvalidArgumentError(`It must be of: ${GROUPINGS.join(", ")}.`);
    return found;
  });
}

const GROUPINGS = ["day", ...DIMENSIONS] as const;
type Grouping = (typeof GROUPINGS)[number];

/** The groupings that were requested, and sums. */
type UsageLine = Partial<Readonly<Record<Grouping, string>>> & UsageCounts;

const COLUMNS = [
  ["requests", "REQUESTS"],
  ["tokensIn", "INPUT"],
  ["tokensCached", "CACHED"],
  ["tokensOut", "OUTPUT"],
  ["estimatedRequests", "ESTIMATED"],
] as const;

/** Days in order; within a day, or without days, most tokens first. */
function groupUsage(records: readonly UsageRecord[], by: readonly Grouping[]): readonly UsageLine[] {
  const dimensions = by.filter((name): name is UsageDimension => name !== "day");
  const days = new Map<string, UsageRecord["rows"][number][]>();
  for (const { day, rows } of records) {
    const key = by.includes("day") ? day : "";
    days.set(key, [...(days.get(key) ?? []), ...rows]);
  }
  return [...days]
    .sort(([a], [b]) => compareText(a, b))
    .flatMap(([day, rows]) =>
      [...sumUsage(rows, dimensions)]
        .sort(
          (a, b) => chargedTokens(b) - chargedTokens(a) || compareText(JSON.stringify(a), JSON.stringify(b)),
        )
        .map((row) => lineOf({ ...row, day }, by)),
    );
}

function renderUsageTable(lines: readonly UsageLine[], by: readonly Grouping[]): string {
  const titles = [...by.map((name) => name.toUpperCase()), ...COLUMNS.map(([, title]) => title)];
  return formatTable(titles, cellsOf(lines, by));
}

/** Comma-separated values with a header. */
function renderUsageLines(lines: readonly UsageLine[], by: readonly Grouping[]): string {
  return renderCsv([[...by, ...COLUMNS.map(([name]) => name)], ...cellsOf(lines, by)]);
}

function cellsOf(lines: readonly UsageLine[], by: readonly Grouping[]): readonly (readonly string[])[] {
  return lines.map((line) => [
    ...by.map((name) => line[name] ?? ""),
    ...COLUMNS.map(([name]) => String(line[name])),
  ]);
}

function lineOf(row: UsageLine, by: readonly Grouping[]): UsageLine {
  const { requests, tokensIn, tokensCached, tokensOut, estimatedRequests } = row;
  return {
    ...Object.fromEntries(by.map((name) => [name, row[name] ?? ""])),
    requests,
    tokensIn,
    tokensCached,
    tokensOut,
    estimatedRequests,
  };
}
