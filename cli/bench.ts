/** `metalbridge bench`: measures latency and throughput of a service, by number of clients. */

import { type Command, InvalidArgumentError } from "commander";
import { INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { type BenchLoad, runLevel } from "./bench/measure.ts";
import { type LevelReport, renderMarkdown, renderTable, reportOf } from "./bench/report.ts";
import { withCluster } from "./cluster/cluster.ts";
import { findObject } from "./cluster/find.ts";
import {
  addNamespacedFlags,
  type ClusterFlags,
  countParser,
  outputFlag,
  parseServiceName,
} from "./cluster/flags.ts";
import { addSecretFlags, findEndpointTarget, type SecretFlags } from "./endpoint/target.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { printNote, printResult } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface Flags extends ClusterFlags, SecretFlags {
  readonly clients: readonly number[];
  readonly requests: number;
  readonly promptWords: number;
  readonly maxTokens: number;
  readonly output: "text" | "json" | "markdown";
}

/** Options and action of the verb. */
export function configureBench(command: Command): void {
  addSecretFlags(addNamespacedFlags(command))
    .argument("<service>", "name of the InferenceService", parseServiceName)
    .option(
      "--clients <counts>",
      "numbers of concurrent clients, one run for each",
      parseCounts,
      [1, 2, 4, 8],
    )
    .option("--requests <n>", "number of requests in each run", countParser(1), 32)
    .option("--prompt-words <n>", "length of each prompt, in words", countParser(1), 128)
    .option("--max-tokens <n>", "maximum length of an answer, in tokens", countParser(1), 128)
    .addOption(outputFlag("markdown"))
    .action(bench);
}

function parseCounts(text: string): readonly number[] {
  const counts = text.split(",").map((part) => (/^\d{1,4}$/.test(part) ? Number(part) : 0));
  if (counts.some((count) => count < 1))
    throw new InvalidArgumentError("It must be whole numbers such as 1,4,16.");
  return counts;
}

async function bench(name: string, flags: Flags): Promise<void> {
  await withCluster("bench", flags, async (cluster) => {
    const service = await findObject(cluster, INFERENCE_SERVICES, name);
    const target = await findEndpointTarget(cluster, service, flags);
    const stop = listenForStop();
    const load = { ...flags, target, mode: service.spec.mode ?? "chat", signal: stop.signal };
    const levels = await measure(load, flags.clients);
    if (levels.length > 0)
      printResult(flags.output, levels, flags.output === "markdown" ? renderMarkdown : renderTable);
    process.exitCode = levels.some(({ failed }) => failed > 0) ? exitCodes.failed : stop.exitCode();
  });
}

/** Sends one request to each endpoint first, to warm it up. An interrupt ends the measurement early. */
async function measure(load: BenchLoad, clients: readonly number[]): Promise<readonly LevelReport[]> {
  const endpoints = load.target.endpoints.length;
  const levels: LevelReport[] = [];
  try {
    printNote(`warming up ${load.target.model}: ${endpoints} ${endpoints === 1 ? "endpoint" : "endpoints"}`);
    await runLevel({ ...load, requests: endpoints }, endpoints);
    for (const count of clients) {
      const run = await runLevel(load, count);
      if (load.signal.aborted) break;
      for (const [message, times] of run.failures) printNote(`${times} failed: ${message}`);
      levels.push(reportOf(run));
    }
  } catch (error) {
    if (!load.signal.aborted) throw error;
  }
  return levels;
}
