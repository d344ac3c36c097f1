/** `metalbridge models`: manages the model store of a host. */

import { tmpdir } from "node:os";
import path from "node:path";
import { type Command, Option } from "commander";
import { openStore } from "../agent/store/store.ts";
import type { FetchProgress } from "../agent/store/types.ts";
import type { ModelCommand, ModelResult } from "../agent/store-maintenance/protocol.ts";
import { sendModelCommand } from "../agent/store-maintenance/socket.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import type { Host } from "../src/api/host.ts";
import { HOSTS, MODELS } from "../src/api/kinds.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { publicSource } from "../src/models/source/parse.ts";
import { systemCode } from "../src/util/atomic-file.ts";
import { formatBytes } from "../src/util/bytes.ts";
import { errorMessage } from "../src/util/error-message.ts";
import { compareText } from "../src/util/text.ts";
import { downloadText } from "../src/verdicts/download.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { findObject } from "./cluster/find.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  type OutputFormat,
  outputFlag,
  parseHostName,
  parseName,
  timeoutOption,
} from "./cluster/flags.ts";
import { listVisible, missingOf, type Visible } from "./cluster/visible.ts";
import { becomeAgentUser } from "./install/installed-agent.ts";
import { findLocalAgent } from "./install/local-agent.ts";
import { addLocalFlags } from "./logs/locate.ts";
import { changeModelsOnHost, type ModelsChange, storedModelsOf } from "./models/in-cluster.ts";
import { addSourceFlags, type SourceFlags } from "./models/source-flags.ts";
import { agoOf } from "./program/age.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { createJsonLog } from "./program/json-log.ts";
import { printNote, printResult } from "./program/output.ts";
import { listenForStop, type StopRequest } from "./program/stop-signals.ts";
import { formatTable } from "./program/table.ts";

interface Flags extends LocalAgentFlags, ClusterFlags {
  readonly output: OutputFormat;
  readonly host?: string;
  readonly allHosts?: boolean;
  readonly timeout: number;
}

const ANY_SOURCE = "hf://org/repo[/file][@revision], https://…, oci://…, as in spec.source of a Model";

/** Subcommands, options and actions of the verb. */
export function configureModels(command: Command): void {
  subcommand(command, "list", "List the stored models: size, last use, last verification, state")
    .addOption(new Option("-A, --all-hosts", "list the models of all hosts of the cluster").conflicts("host"))
    .option(
      "-n, --namespace <name>",
      "with --all-hosts, if you may not list hosts: list the Models of this namespace instead (default: that of the context)",
      parseName,
    )
    .action((flags: Flags) => run({ do: "list" }, flags));
  addSourceFlags(subcommand(command, "pull", "Download a model to the store"))
    .argument("<source>", ANY_SOURCE)
    .action((source: string, { file: files, ignore: ignorePatterns, ...flags }: Flags & SourceFlags) => {
      const { mmproj, sha256, quantization, format } = flags;
      return run({ do: "pull", source, files, ignorePatterns, mmproj, sha256, quantization, format }, flags);
    });
  const forModel = (name: "pin" | "unpin" | "rm", description: string) =>
    subcommand(command, name, description)
      .argument("<source>", "source of the model, as in the list")
      .action((source: string, flags: Flags) => run({ do: name, source }, flags));
  forModel("pin", "Pin a stored model, so that it is never evicted");
  forModel("unpin", "Unpin a model, so that it can be evicted");
  forModel("rm", "Remove a stored model that is neither in use nor pinned");
  subcommand(command, "gc", "Remove all stored models that are not in use, pinned or prefetched").action(
    (flags: Flags) => run({ do: "gc" }, flags),
  );
  subcommand(command, "verify", "Verify the checksums of the stored models, and set damaged files aside")
    .argument("[sources...]", "sources of the models, as in the list (default: all)")
    .action((sources: readonly string[], flags: Flags) =>
      run({ do: "verify", sources: sources.length === 0 ? undefined : [...sources] }, flags),
    );
}

function subcommand(command: Command, name: string, description: string): Command {
  const sub = addLocalFlags(command.command(name).description(description))
    .option(
      "--host <host>",
      "use the store of this Host of the cluster (default: this machine, without the cluster)",
      parseHostName,
    )
    .addOption(outputFlag());
  if (name !== "list")
    sub.addOption(timeoutOption("with --host: stop waiting after this time (the host continues)", "10m"));
  return addClusterFlags(sub);
}

async function run(command: ModelCommand, flags: Flags): Promise<void> {
  const stop = listenForStop();
  const isLocal = flags.host === undefined && flags.allHosts !== true;
  const isShown = flags.output === "text" && process.stderr.isTTY === true;
  const local = { signal: stop.signal, onProgress: isShown ? showProgress : undefined };
  const answer = await (isLocal
    ? runModelCommandLocally(flags, command, local)
    : runInCluster(flags, command, stop)
  ).catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
    return undefined;
  });
  process.exitCode = stop.exitCode();
  if (answer === undefined) return;
  printResult(flags.output, plainOf(command, answer), () => textOf(command, answer));
  const isDamaged =
    (answer.at === "verified" && answer.files.some(({ state }) => state !== "intact")) ||
    (command.do === "verify" &&
      answer.at === "models" &&
      answer.models.some(({ damaged }) => damaged === true));
  if (isDamaged) process.exitCode = exitCodes.failed;
}

/** The result of a command, from the agent of this machine or from the status of hosts. */
type Answer =
  | Exclude<ModelResult, { at: "models" }>
  | { readonly at: "models"; readonly models: readonly ModelLine[] };

function runInCluster(flags: Flags, command: ModelCommand, stop: StopRequest): Promise<Answer | undefined> {
  const { host, timeout } = flags;
  return withCluster("models", flags, async (cluster) => {
    if (command.do === "list" || host === undefined) return listOn(cluster, host);
    const done = await changeModelsOnHost(cluster, host, command, {
      signal: stop.signal,
      timeoutMs: timeout,
      report: printNote,
    });
    return done === undefined ? undefined : answerOf(command, done);
  });
}

async function listOn(cluster: Cluster, host: string | undefined): Promise<Answer> {
  if (host !== undefined) {
    const one = await findObject(cluster, HOSTS, host);
    if (one.status?.info !== undefined) return { at: "models", models: linesOf(one) };
    throw new MetalbridgeError("HostNeverSeen", `the agent of host ${host} has not reported yet`);
  }
  const seen = await listVisible(cluster, HOSTS);
  if (seen.items === undefined) return copiesOf(cluster, seen);
  for (const { metadata, status } of seen.items)
    if (status?.info === undefined) printNote(`${metadata.name}: its agent has not reported yet`);
  return { at: "models", models: seen.items.flatMap(linesOf) };
}

/** For a reader who may not list hosts: the copies that the status of the Models names. */
async function copiesOf(cluster: Cluster, hosts: Visible<Host>): Promise<Answer> {
  const models = await listVisible(cluster, MODELS);
  for (const note of missingOf(hosts, models)) printNote(note);
  printNote("Only copies of Models are shown, without their last use and state.");
  const lines = (models.items ?? []).flatMap(({ spec, status }) =>
    (status?.hosts ?? []).map(({ name, sizeBytes }) => ({
      host: name,
      source: publicSource(spec.source),
      sizeBytes,
    })),
  );
  const distinct = new Map(lines.map((line) => [`${line.host}\n${line.source}`, line]));
  return { at: "models", models: [...distinct.values()] };
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
  if (command.do === "pin") return answer.isChanged ? `pinned ${source}` : `${source} is already pinned`;
  return answer.isChanged ? `unpinned ${source}` : `${source} is not pinned`;
}

/** Overwrites one line of the terminal. */
function showProgress(progress: FetchProgress): void {
  const end = progress.bytes === progress.totalBytes ? "\n" : "";
  process.stderr.write(`\r\x1b[K${downloadText(progress)}${end}`);
}

interface LocalAgentFlags {
  readonly stateDir?: string;
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly root?: string;
}

interface ModelCommandRun {
  readonly signal: AbortSignal;
  readonly onProgress?: (progress: FetchProgress) => void;
}

/**
 * Runs a model command on this machine: by its agent, or, if no agent runs, by reading the store. Throws the errors of the agent,
 * AgentNotRunning for a command that requires an agent, and StoreUnreadable.
 */
async function runModelCommandLocally(
  flags: LocalAgentFlags,
  command: ModelCommand,
  run: ModelCommandRun,
): Promise<ModelResult> {
  const { stateDir, installed } = await findLocalAgent(flags);
  if (installed !== undefined) await becomeAgentUser(installed);
  const answer = await sendModelCommand({ stateDir, tempDir: tmpdir() }, command, run);
  if (answer !== undefined) return answer;
  if (command.do !== "list" && command.do !== "verify")
    throw new MetalbridgeError(
      "AgentNotRunning",
      `no agent is running on ${stateDir}, and only the agent may change the store`,
    );
  try {
    return await readStore(stateDir, command, run);
  } catch (error) {
    const code = systemCode(error);
    if (code !== "EACCES" && code !== "EPERM") throw error;
    const message = errorMessage(error);
    throw new MetalbridgeError("StoreUnreadable", message);
  }
}

/** Reports damaged files and leaves them in place: the next agent sets them aside. */
async function readStore(
  stateDir: string,
  command: Extract<ModelCommand, { do: "list" | "verify" }>,
  run: ModelCommandRun,
): Promise<ModelResult> {
  printNote(`no agent is running on ${stateDir}: reading its store; the models in use are unknown`);
  const store = await openStore({
    dir: path.join(stateDir, "models"),
    isReadOnly: true,
    clock: systemClock,
    log: createJsonLog("error"),
    allowedRoots: [],
    hfEndpoint: "https://huggingface.co",
    reserveBytes: 0,
  });
  if (command.do === "list") return { at: "models", models: await store.list() };
  const sources = command.sources?.map(publicSource);
  return { at: "verified", files: await store.verify({ ...run, sources }) };
}

/** One model of one host. */
interface ModelLine {
  readonly host?: string;
  readonly source: string;
  readonly sizeBytes?: number | undefined;
  readonly lastUsedAt?: string | undefined;
  readonly verifiedAt?: string | undefined;
  readonly inUse?: boolean | undefined;
  readonly pinned?: boolean | undefined;
  readonly damaged?: boolean | undefined;
}

interface VerifiedLine {
  readonly source: string;
  readonly file: string;
  readonly sizeBytes: number;
  readonly state: string;
}

/** Sorted by host and source. The HOST column is omitted if no line has a host. */
function renderModels(lines: readonly ModelLine[], nowMs: number): string {
  if (lines.length === 0) return "no models are stored";
  const hasHosts = lines.some(({ host }) => host !== undefined);
  const rows = sorted(lines).map((line) => [
    ...(hasHosts ? [line.host ?? ""] : []),
    line.source,
    line.sizeBytes === undefined ? "" : formatBytes(line.sizeBytes),
    agoOf(line.lastUsedAt, nowMs) ?? "",
    agoOf(line.verifiedAt, nowMs) ?? "",
    stateOf(line),
  ]);
  const titles = [...(hasHosts ? ["HOST"] : []), "MODEL", "SIZE", "LAST USED", "VERIFIED", "STATE"];
  return formatTable(titles, rows);
}

function renderVerified(lines: readonly VerifiedLine[]): string {
  if (lines.length === 0) return "no models are stored";
  const rows = lines.map(({ source, file, sizeBytes, state }) => [
    state,
    formatBytes(sizeBytes),
    file,
    source,
  ]);
  return formatTable(["STATE", "SIZE", "FILE", "MODEL"], rows);
}

function sorted<T extends ModelLine>(lines: readonly T[]): readonly T[] {
  const key = ({ host = "", source }: T) => `${host}\n${source}`;
  return lines.toSorted((a, b) => compareText(key(a), key(b)));
}

function stateOf({ inUse, pinned, damaged }: ModelLine): string {
  return [inUse && "in use", pinned && "pinned", damaged && "damaged"].filter(Boolean).join(", ");
}
