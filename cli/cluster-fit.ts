/** `metalbridge cluster-fit`: where a model fits best, asked of every node by a short-lived pod, and of Hosts by their status. */

import { type Command, InvalidArgumentError, Option } from "commander";
import { FIT_LEVELS, type FitLevel, USE_CASES, type UseCase } from "../fitness/scoring/score.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { withCluster } from "./cluster/cluster.ts";
import {
  addNamespacedFlags,
  type ClusterFlags,
  countParser,
  type OutputFormat,
  outputFlag,
  parseDuration,
} from "./cluster/flags.ts";
import { clusterFit } from "./cluster-fit/cluster-fit.ts";
import { type RankPayload, renderPayload } from "./cluster-fit/rank.ts";
import { writeNodeReport } from "./cluster-fit/write-node-report.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { writeOut } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface Flags extends ClusterFlags {
  readonly model?: string;
  readonly useCase?: UseCase;
  readonly minFit: FitLevel;
  readonly limit: number;
  readonly timeout: number;
  readonly probeImage?: string;
  readonly concurrency: number;
  readonly catalog?: readonly string[];
  readonly output: OutputFormat;
  readonly probeTo?: string;
}

const LIMIT = 5;
const TIMEOUT_MS = 180_000;
const CONCURRENCY = 8;

/** Options and action of the verb. */
export function configureClusterFit(command: Command): void {
  addNamespacedFlags(command)
    .option("--model <name>", "the model, as the catalog or a repository names it; any: all of them")
    .addOption(
      new Option(
        "--use-case <name>",
        "what the model is for (default: what it was made for, each model its own)",
      ).choices([...USE_CASES]),
    )
    .addOption(new Option("--min-fit <level>", "at least this fit").choices([...FIT_LEVELS]).default("good"))
    .option("--limit <count>", "models shown of each node", countParser(1), LIMIT)
    .addOption(
      new Option("--timeout <time>", "how long one pod may take")
        .argParser(parseTimeout)
        .default(TIMEOUT_MS, "180s"),
    )
    .option("--probe-image <image>", "Metalbridge's image (default: that of the controller)")
    .option("--concurrency <count>", "pods at once", countParser(1), CONCURRENCY)
    .addOption(catalogOption())
    .addOption(outputFlag())
    .option("--probe-to <file>", "what the pods run: write what this machine has to the file, and exit")
    .action(async (flags: Flags) => {
      if (flags.probeTo !== undefined) return writeNodeReport(flags.probeTo);
      if (flags.model === undefined) command.error("error: --model <name> is missing");
      else await run(flags.model, flags);
    });
}

async function run(model: string, { output, catalog, ...flags }: Flags): Promise<void> {
  const stop = listenForStop();
  const { records } = await readCatalogFiles(catalog);
  await withCluster("cluster-fit", flags, async (cluster) => {
    const payload = await clusterFit(cluster, records, { ...flags, model, signal: stop.signal });
    if (payload === undefined) process.exitCode = stop.exitCode() || exitCodes.failed;
    else print(payload, output);
  });
}

function print(payload: RankPayload, output: OutputFormat): void {
  const isEmpty = payload.node_count === 0;
  if (isEmpty) process.exitCode = exitCodes.failed;
  const json = isEmpty ? { error: "no Kubernetes nodes found" } : payload;
  writeOut(output === "json" ? `${JSON.stringify(json, undefined, 2)}\n` : `${renderPayload(payload)}\n`);
}

/** A plain number is seconds, as the original takes it. */
function parseTimeout(text: string): number {
  const ms = parseDuration(/^\d{1,6}$/.test(text) ? `${text}s` : text);
  if (ms < 1_000) throw new InvalidArgumentError("It has to be at least 1s.");
  return ms;
}
