/** `metalbridge cluster-fit`: ranks nodes and Hosts for a model. Nodes are read by probe pods, Hosts by their status. */

import { type Command, Option } from "commander";
import { FIT_LEVELS, type FitLevel, USE_CASES, type UseCase } from "../fitness/scoring/score.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { withCluster } from "./cluster/cluster.ts";
import {
  addNamespacedFlags,
  type ClusterFlags,
  countParser,
  durationParser,
  type OutputFormat,
  outputFlag,
} from "./cluster/flags.ts";
import { clusterFit } from "./cluster-fit/cluster-fit.ts";
import { type RankPayload, renderPayload } from "./cluster-fit/rank.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { printResult } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface Flags extends ClusterFlags {
  readonly model: string;
  readonly useCase?: UseCase;
  readonly minFit: FitLevel;
  readonly limit: number;
  readonly timeout: number;
  readonly probeImage?: string;
  readonly concurrency: number;
  readonly catalog?: readonly string[];
  readonly output: OutputFormat;
}

const LIMIT = 5;
const CONCURRENCY = 8;

/** Options and action of the verb. */
export function configureClusterFit(command: Command): void {
  addNamespacedFlags(command)
    .requiredOption(
      "--model <name>",
      "model, by its name in the catalog or its repository; any means all models",
    )
    .addOption(
      new Option(
        "--use-case <name>",
        "use case of the model (default: the own use case of each model)",
      ).choices([...USE_CASES]),
    )
    .addOption(new Option("--min-fit <level>", "minimum fit").choices([...FIT_LEVELS]).default("good"))
    .option("--limit <count>", "maximum number of models for each node", countParser(1), LIMIT)
    .addOption(
      new Option("--timeout <time>", "time limit for each probe pod")
        .argParser(parseTimeout)
        .default(parseTimeout("180s"), "180s"),
    )
    .option("--probe-image <image>", "image of the probe pods (default: the image of the controller)")
    .option("--concurrency <count>", "number of concurrent probe pods", countParser(1), CONCURRENCY)
    .addOption(catalogOption())
    .addOption(outputFlag())
    .action(run);
}

async function run({ output, catalog, ...flags }: Flags): Promise<void> {
  const stop = listenForStop();
  const { records } = await readCatalogFiles(catalog);
  await withCluster("cluster-fit", flags, async (cluster) => {
    const payload = await clusterFit(cluster, records, { ...flags, signal: stop.signal });
    if (payload === undefined) process.exitCode = stop.exitCode() || exitCodes.failed;
    else print(payload, output);
  });
}

function print(payload: RankPayload, output: OutputFormat): void {
  const isEmpty = payload.node_count === 0;
  if (isEmpty) process.exitCode = exitCodes.failed;
  const json = isEmpty ? { error: "no Kubernetes nodes found" } : payload;
  printResult(output, json, () => renderPayload(payload));
}

/** A plain number is in seconds, as in llmfit-cluster-fit. */
function parseTimeout(text: string): number {
  return durationParser("1s", "24h")(/^\d{1,6}$/.test(text) ? `${text}s` : text);
}
