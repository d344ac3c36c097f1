/** `metalbridge usage`: sums the usage records of the gateway. */
import { type Command, InvalidArgumentError } from "commander";
import { LABEL_USAGE } from "../src/api/group.ts";
import { readUsageRecord } from "../src/gateway/usage.ts";
import { dayOf } from "../src/gateway/usage-record.ts";
import { CONFIG_MAPS } from "../src/kube/kinds.ts";
import { withCluster } from "./cluster/cluster.ts";
import { listAll } from "./cluster/find.ts";
import { outputFlag } from "./cluster/flags.ts";
import { addGatewayFlags, type KeyFlags } from "./key/flags.ts";
import { printJson, printLine, writeOut } from "./program/output.ts";
import { GROUPINGS, type Grouping, groupUsage, renderUsageLines, renderUsageTable } from "./usage/report.ts";

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
