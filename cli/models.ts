/** `metalbridge models`: what is in the model store of a host, and what stays there. */

import { type Command, Option } from "commander";
import type { FetchProgress } from "../agent/store/types.ts";
import type { ModelCommand, ModelResult } from "../agent/store-maintenance/protocol.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { formatSchema } from "../src/api/fields/shared.ts";
import type { Host } from "../src/api/host.ts";
import { HOSTS } from "../src/api/kinds.ts";
import { publicSource } from "../src/models/source/parse.ts";
import { formatBytes } from "../src/util/bytes.ts";
import { withCluster } from "./cluster/cluster.ts";
import { findHost, listAll } from "./cluster/find.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  type OutputFormat,
  outputFlag,
  parseDuration,
  parseHostName,
} from "./cluster/flags.ts";
import { addLocalFlags } from "./logs/locate.ts";
import { changeModelsOnHost, type ModelsChange, storedModelsOf } from "./models/in-cluster.ts";
import { type LocalAgentFlags, runModelCommandLocally } from "./models/local-command.ts";
import { type ModelLine, renderModels, renderVerified, sorted } from "./models/render.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { writeErr, writeOut } from "./program/output.ts";
import { listenForStop, type StopRequest } from "./program/stop-signals.ts";

interface Flags extends LocalAgentFlags, ClusterFlags {
  readonly output: OutputFormat;
  readonly host?: string;
  readonly allHosts?: boolean;
  readonly timeout?: number;
}

const ANY_SOURCE = "hf://org/repo[/file][@revision], https://…, oci://…, as in spec.source of a Model";
const TIMEOUT_MS = 600_000;

/** Subcommands, options and actions of the verb. */
export function configureModels(command: Command): void {
  subcommand(command, "list", "list the stored models: size, last use, last verification, state")
    .addOption(new Option("-A, --all-hosts", "of all hosts of the cluster").conflicts("host"))
    .action((flags: Flags) => run({ do: "list" }, flags));
  subcommand(command, "pull", "download a model to the store")
    .argument("<source>", ANY_SOURCE)
    .option("--file <name...>", "files to fetch, the main file first")
    .option("--mmproj <name>", "projector file of the same source")
    .option("--sha256 <hex>", "checksum of the main file")
    .option("--quantization <name>", "quantization to choose, for example Q4_K_M")
    .addOption(new Option("--format <name>", "format of the weights").choices(formatSchema.options))
    .action(pull);
  subcommand(command, "pin", "keep a stored model: it is never evicted")
    .argument("<source>", "as the list shows it")
    .action((source: string, flags: Flags) => run({ do: "pin", source }, flags));
  subcommand(command, "unpin", "let a pinned model be evicted again")
    .argument("<source>", "as the list shows it")
    .action((source: string, flags: Flags) => run({ do: "unpin", source }, flags));
  subcommand(command, "rm", "remove a stored model that is neither in use nor pinned")
    .argument("<source>", "as the list shows it")
    .action((source: string, flags: Flags) => run({ do: "rm", source }, flags));
  subcommand(command, "gc", "remove every stored model that is neither in use, pinned nor prefetched").action(
    (flags: Flags) => run({ do: "gc" }, flags),
  );
  subcommand(command, "verify", "hash the stored models now, and set damaged files aside")
    .argument("[sources...]", "as the list shows them (default: all)")
    .action((sources: readonly string[], flags: Flags) =>
      run({ do: "verify", sources: sources.length === 0 ? undefined : [...sources] }, flags),
    );
}

function subcommand(command: Command, name: string, description: string): Command {
  const sub = addLocalFlags(command.command(name).description(description))
    .option(
      "--host <host>",
      "of this Host of the cluster (default: this machine, without the cluster)",
      parseHostName,
    )
    .addOption(outputFlag());
  if (name !== "list")
    sub.option(
      "--timeout <time>",
      "with --host: stop waiting after this time, such as 90s or 10m (default: 10m); 0: never. The host continues",
      parseDuration,
    );
  return addClusterFlags(sub);
}

interface PullFlags extends Flags {
  readonly file?: string[];
  readonly mmproj?: string;
  readonly sha256?: string;
  readonly quantization?: string;
  readonly format?: Extract<ModelCommand, { do: "pull" }>["format"];
}

function pull(
  source: string,
  { file, mmproj, sha256, quantization, format, ...flags }: PullFlags,
): Promise<void> {
  return run({ do: "pull", source, files: file, mmproj, sha256, quantization, format }, flags);
}

async function run(command: ModelCommand, flags: Flags): Promise<void> {
  const stop = listenForStop();
  const ask =
    flags.host === undefined && flags.allHosts !== true
      ? runModelCommandLocally(flags, command, runOf(flags, stop))
      : askCluster(flags, command, stop);
  const answer = await ask.catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
    return undefined;
  });
  process.exitCode = stop.exitCode();
  if (answer === undefined) return;
  const text =
    flags.output === "json"
      ? JSON.stringify(plainOf(command, answer), undefined, 2)
      : textOf(command, answer);
  writeOut(`${text}\n`);
  const isDamaged =
    (answer.at === "verified" && answer.files.some(({ state }) => state !== "intact")) ||
    (command.do === "verify" &&
      answer.at === "models" &&
      answer.models.some(({ damaged }) => damaged === true));
  if (isDamaged) process.exitCode = exitCodes.failed;
}

function runOf({ output }: Flags, { signal }: StopRequest) {
  const isShown = output === "text" && process.stderr.isTTY === true;
  return { signal, onProgress: isShown ? showProgress() : undefined };
}

/** What hosts have and what they do, as their status says. */
type Answer =
  | Exclude<ModelResult, { at: "models" }>
  | { readonly at: "models"; readonly models: readonly ModelLine[] };

function askCluster(flags: Flags, command: ModelCommand, stop: StopRequest): Promise<Answer | undefined> {
  const { host, timeout = TIMEOUT_MS } = flags;
  return withCluster("models", flags, async (cluster) => {
    if (command.do === "list" || host === undefined) {
      const hosts = host === undefined ? await listAll(cluster, HOSTS) : [await findHost(cluster, host)];
      const silent = hosts.filter(({ status }) => status?.info === undefined);
      if (host !== undefined && silent.length > 0)
        throw new MetalbridgeError("HostNeverSeen", `the agent of host ${host} has not reported yet`);
      for (const { metadata } of silent) writeErr(`${metadata.name}: its agent has not reported yet\n`);
      return { at: "models", models: hosts.flatMap(linesOf) };
    }
    const tell = (line: string) => writeErr(`${line}\n`);
    const done = await changeModelsOnHost(cluster, host, command, {
      signal: stop.signal,
      timeoutMs: timeout,
      tell,
    });
    return done === undefined ? undefined : answerOf(command, done);
  });
}

function linesOf(host: Host): readonly ModelLine[] {
  return storedModelsOf(host).map((model) => ({ host: host.metadata.name, ...model }));
}

function answerOf(command: ModelCommand, { before, after }: ModelsChange): Answer {
  if (command.do === "verify") return { at: "models", models: after };
  if (command.do === "gc") return { at: "models", models: before };
  const sizeBytes = (command.do === "rm" ? before : after)[0]?.sizeBytes;
  return { at: "changed", isChanged: true, sizeBytes };
}

function plainOf(command: ModelCommand, answer: Answer): unknown {
  if (answer.at === "models") return sorted(answer.models);
  if (answer.at === "verified") return answer.files;
  const { isChanged, sizeBytes } = answer;
  return { source: "source" in command ? publicSource(command.source) : undefined, isChanged, sizeBytes };
}

function textOf(command: ModelCommand, answer: Answer): string {
  if (answer.at === "verified") return renderVerified(answer.files);
  if (answer.at === "models") {
    if (command.do !== "gc") return renderModels(answer.models, Date.now());
    const bytes = answer.models.reduce((sum, { sizeBytes = 0 }) => sum + sizeBytes, 0);
    const removed = sorted(answer.models).map(({ source }) => `removed ${source}`);
    return [...removed, `${removed.length} models removed, ${formatBytes(bytes)}`].join("\n");
  }
  const source = "source" in command ? publicSource(command.source) : "";
  const size = answer.sizeBytes === undefined ? "" : ` (${formatBytes(answer.sizeBytes)})`;
  if (command.do === "pull") return `pulled ${source}${size}`;
  if (command.do === "rm") return `removed ${source}${size}`;
  if (command.do === "pin") return answer.isChanged ? `pinned ${source}` : `${source} was pinned already`;
  return answer.isChanged ? `unpinned ${source}` : `${source} was not pinned`;
}

/** One line that is written over, on a terminal. */
function showProgress(): (progress: FetchProgress) => void {
  return ({ bytes, totalBytes }) => {
    const of = totalBytes === undefined ? "" : ` of ${formatBytes(totalBytes)}`;
    process.stderr.write(`\r\x1b[K${formatBytes(bytes)}${of}${bytes === totalBytes ? "\n" : ""}`);
  };
}
