/** `metalbridge logs`: what a replica's engine has written, from the file on its own host. */
import { once } from "node:events";
import { existsSync } from "node:fs";
import { type Command, Option } from "commander";
import { loadAgentConfig } from "../agent/config/load.ts";
import { shellWord } from "../local/shell-word.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { withCluster } from "./cluster/cluster.ts";
import { addNamespacedFlags, type ClusterFlags, parseCount, parseName } from "./cluster/flags.ts";
import { chooseLocal } from "./logs/choose.ts";
import { explainElsewhere, type Search, unreadable } from "./logs/elsewhere.ts";
import { type LocalReplica, readLocalReplicas } from "./logs/local.ts";
import type { Wanted } from "./logs/place.ts";
import { printLog } from "./logs/print.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface LogsFlags extends ClusterFlags {
  readonly follow?: boolean;
  readonly tail?: number;
  readonly all?: boolean;
  readonly stateDir?: string;
  readonly config?: string;
}

/** Options and action of the verb. */
export function configureLogs(command: Command): void {
  addNamespacedFlags(command)
    .argument("<replica>", "name of the InferenceReplica, or of a service that has one replica", (text) =>
      parseName(text.replace(/^(ireps?|inferencereplicas?|isvc|replica|service)\//, "")),
    )
    .option("-f, --follow", "keep printing new lines until Ctrl-C")
    .option(
      "--tail <lines>",
      "last N lines, across rotated files (default: the whole current file)",
      parseCount(0),
    )
    .addOption(new Option("--all", "include rotated files").conflicts("tail"))
    .option(
      "--state-dir <folder>",
      "the agent's state folder on this machine (default: the agent's own default)",
    )
    .option("--config <file>", "the agent's configuration, which names its state folder")
    .action(logs);
}

async function logs(name: string, flags: LogsFlags): Promise<void> {
  const config = loadAgentConfig({ file: flags.config, flags: { stateDir: flags.stateDir } });
  const { stateDir, hostName } = config;
  const local = await readLocalReplicas(stateDir);
  const found = local.at === "read" ? chooseLocal(local.replicas, name, flags.namespace) : undefined;
  if (found !== undefined) return print(found, stateDir, flags);
  const closed = local.at === "closed" ? local.because : undefined;
  const search: Search = { name, stateDir, hostName, closed, flags: repeatable(flags) };
  await withCluster("logs", flags, (cluster) => explainElsewhere(cluster, search)).catch((error: unknown) => {
    throw isAboutTheCluster(error) ? notHere(search, error) : error;
  });
}

async function print(replica: LocalReplica, stateDir: string, flags: LogsFlags): Promise<void> {
  if (flags.follow !== true && !existsSync(replica.dir)) throw neverStarted(replica);
  const stop = listenForStop();
  // `metalbridge logs X -f | head`: the reader has closed the pipe.
  process.stdout.once("error", stop.stop);
  process.stdout.once("close", stop.stop);
  await printLog(replica.dir, {
    wanted: wantedOf(flags),
    follow: flags.follow === true,
    signal: stop.signal,
    tell: (line) => process.stderr.write(`${line}\n`),
    write: async (bytes) => {
      if (process.stdout.write(bytes) || stop.signal.aborted) return;
      await once(process.stdout, "drain", { signal: stop.signal }).catch(() => {});
    },
  }).catch((error: unknown) => {
    throw isRefused(error) ? unreadable({ name: replica.name, stateDir, closed: error.message }) : error;
  });
  process.exitCode = stop.exitCode();
}

function neverStarted({ name, namespace }: LocalReplica): MetalbridgeError {
  const message = `the engine of ${namespace}/${name} has not been started on this machine yet`;
  return new MetalbridgeError("LogNotFound", message, {
    summary: "see what it waits for; or pass -f to wait for its first line",
    command: `metalbridge describe ${name} -n ${namespace}`,
  });
}

function wantedOf({ tail, all }: LogsFlags): Wanted {
  if (tail !== undefined) return { lines: tail };
  return all === true ? "all" : "current";
}

function repeatable({ follow, tail, all }: LogsFlags): readonly string[] {
  return [
    ...(follow === true ? ["-f"] : []),
    ...(tail === undefined ? [] : ["--tail", String(tail)]),
    ...(all === true ? ["--all"] : []),
  ];
}

/** The cluster could not be asked: what is known then is what this machine's folder says. */
function notHere(search: Search, error: MetalbridgeError): MetalbridgeError {
  if (search.closed !== undefined) return unreadable(search);
  const message = `${search.stateDir} holds no log of ${search.name}, and where it is cannot be asked: ${error.code}: ${error.message}`;
  return new MetalbridgeError("LogNotFound", message, {
    summary: "if the agent here uses another state folder, name it, or its configuration with --config",
    command: `metalbridge logs ${shellWord(search.name)} --state-dir <folder>`,
  });
}

function isAboutTheCluster(error: unknown): error is MetalbridgeError {
  return (
    error instanceof MetalbridgeError && /^(Api(Unreachable|Unavailable|Un)|Kubeconfig)/.test(error.code)
  );
}

function isRefused(error: unknown): error is Error {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return code === "EACCES" || code === "EPERM";
}
