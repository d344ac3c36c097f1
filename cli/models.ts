/** `metalbridge models`: what is in the model store of a host, and what stays there. */
import { type Command, Option } from "commander";
import type { ModelAnswer, ModelCommand } from "../agent/models/protocol.ts";
import type { FetchProgress } from "../agent/store/types.ts";
import { formatSchema } from "../src/api/fields/shared.ts";
import { formatBytes } from "../src/bytes.ts";
import { publicSource } from "../src/models/source/source.ts";
import { type Output, outputFlag } from "./cluster/flags.ts";
import { addLocalFlags } from "./logs/locate.ts";
import { askHere, type HereFlags } from "./models/on-this-host.ts";
import { renderModels, renderVerified, sorted } from "./models/render.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface Flags extends HereFlags {
  readonly output: Output;
}

const ANY_SOURCE = "hf://org/repo[/file][@revision], https://…, oci://…, as in spec.source of a Model";

/** Subcommands, options and actions of the verb. */
export function configureModels(command: Command): void {
  subcommand(command, "list", "list the stored models: size, last use, last verification, state").action(
    (flags: Flags) => run({ do: "list" }, flags),
  );
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
      run({ do: "verify", ...(sources.length === 0 ? {} : { sources: [...sources] }) }, flags),
    );
}

function subcommand(command: Command, name: string, description: string): Command {
  return addLocalFlags(command.command(name).description(description)).addOption(outputFlag());
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
  const onProgress = flags.output === "text" && process.stderr.isTTY === true ? showProgress() : undefined;
  const options = { signal: stop.signal, ...(onProgress === undefined ? {} : { onProgress }) };
  const answer = await askHere(flags, command, options).catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
    return undefined;
  });
  process.exitCode = stop.exitCode();
  if (answer === undefined) return;
  const text =
    flags.output === "json"
      ? JSON.stringify(plainOf(command, answer), undefined, 2)
      : textOf(command, answer);
  process.stdout.write(`${text}\n`);
  if (answer.at === "verified" && answer.files.some(({ state }) => state !== "intact"))
    process.exitCode = exitCodes.failed;
}

function plainOf(command: ModelCommand, answer: ModelAnswer): unknown {
  if (answer.at === "models") return sorted(answer.models);
  if (answer.at === "verified") return answer.files;
  const { isChanged, sizeBytes } = answer;
  return { source: "source" in command ? publicSource(command.source) : undefined, isChanged, sizeBytes };
}

function textOf(command: ModelCommand, answer: ModelAnswer): string {
  if (answer.at === "verified") return renderVerified(answer.files);
  if (answer.at === "models") {
    if (command.do !== "gc") return renderModels(answer.models, Date.now());
    const bytes = answer.models.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
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
