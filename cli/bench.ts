/** `metalbridge bench`: how fast a service answers, by number of clients. */

import { type Command, InvalidArgumentError, Option } from "commander";
import { type BenchLoad, runLevel } from "./bench/measure.ts";
import { type LevelReport, renderMarkdown, renderTable, reportOf } from "./bench/report.ts";
import { withCluster } from "./cluster/cluster.ts";
import { findService } from "./cluster/find.ts";
import { addNamespacedFlags, type ClusterFlags, countParser, parseServiceName } from "./cluster/flags.ts";
import { addSecretFlags, findEndpointTarget, type SecretFlags } from "./endpoint/target.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { writeErr, writeOut } from "./program/output.ts";
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
    .option("--clients <counts>", "concurrent clients, one run for each count", parseCounts, [1, 2, 4, 8])
    .option("--requests <n>", "requests in each run", countParser(1), 32)
    .option("--prompt-words <n>", "length of a prompt, in words", countParser(1), 128)
    .option("--max-tokens <n>", "longest answer, in tokens", countParser(1), 128)
    .addOption(
      new Option("-o, --output <format>", "how to print it")
        .choices(["text", "markdown", "json"])
        .default("text"),
    )
    .action(bench);
}

function parseCounts(text: string): readonly number[] {
  const counts = text.split(",").map((part) => (/^\d{1,4}$/.test(part) ? Number(part) : 0));
  if (counts.some((count) => count < 1))
    throw new InvalidArgumentError("It has to be whole numbers such as 1,4,16.");
  return counts;
}

async function bench(name: string, flags: Flags): Promise<void> {
  await withCluster("bench", flags, async (cluster) => {
    const service = await findService(cluster, name);
    const target = await findEndpointTarget(cluster, service, flags);
    const stop = listenForStop();
    const load = { ...flags, target, mode: service.spec.mode ?? "chat", signal: stop.signal };
    const levels = await measure(load, flags.clients);
    if (levels.length > 0) writeOut(`${render(levels, flags.output)}\n`);
    process.exitCode = levels.some(({ failed }) => failed > 0) ? exitCodes.failed : stop.exitCode();
  });
}

/** A request to each endpoint first, so that none is cold. Ends early where it is interrupted. */
async function measure(load: BenchLoad, clients: readonly number[]): Promise<readonly LevelReport[]> {
  const endpoints = load.target.endpoints.length;
  const aside = (line: string) => writeErr(`${line}\n`);
  const levels: LevelReport[] = [];
  try {
    aside(`warming up ${load.target.model}: ${endpoints} ${endpoints === 1 ? "endpoint" : "endpoints"}`);
    await runLevel({ ...load, requests: endpoints }, endpoints);
    for (const count of clients) {
      const run = await runLevel(load, count);
      if (load.signal.aborted) break;
      for (const [message, times] of run.failures) aside(`${times} failed: ${message}`);
      levels.push(reportOf(run));
    }
  } catch (error) {
    if (!load.signal.aborted) throw error;
  }
  return levels;
}

function render(levels: readonly LevelReport[], output: Flags["output"]): string {
  switch (output) {
    case "text":
      return renderTable(levels);
    case "markdown":
      return renderMarkdown(levels);
    case "json":
      return JSON.stringify(levels, undefined, 2);
    default:
      return output satisfies never;
  }
}
