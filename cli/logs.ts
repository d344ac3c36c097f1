/** `metalbridge logs`: what a replica's engine has written, from the file on its own host. */
import { existsSync } from "node:fs";
import { pipeline } from "node:stream/promises";
import { type Command, Option } from "commander";
import { loadAgentConfig } from "../agent/config/load.ts";
import { shellWord } from "../local/shell-word.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { waitMs } from "../src/kube/wait.ts";
import { withCluster } from "./cluster/cluster.ts";
import { addNamespacedFlags, type ClusterFlags, parseCount, parseName } from "./cluster/flags.ts";
import { explainElsewhere } from "./logs/elsewhere.ts";
import { chooseLocal, type LocalReplica, readLocalReplicas } from "./logs/local.ts";
import { LogReader, type Wanted } from "./logs/reader.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface LogsFlags extends ClusterFlags {
  readonly follow?: boolean;
  readonly tail?: number;
  readonly all?: boolean;
  readonly stateDir?: string;
  readonly config?: string;
}

interface ReadOptions {
  readonly wanted: Wanted;
  readonly follow: boolean;
  readonly signal: AbortSignal;
}

/** How long a new line may wait. */
const POLL_MS = 200;

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
  const { stateDir, hostName } = loadAgentConfig({ file: flags.config, flags: { stateDir: flags.stateDir } });
  try {
    const found = chooseLocal(readLocalReplicas(stateDir), name, flags.namespace);
    if (found !== undefined) return await print(found, flags);
  } catch (error) {
    throw isRefused(error) ? unreadable(error, name, stateDir) : error;
  }
  await withCluster("logs", flags, (cluster) =>
    explainElsewhere(cluster, name, { stateDir, hostName }),
  ).catch((error: unknown) => {
    throw isAboutTheCluster(error) ? notHere(error, name, stateDir) : error;
  });
}

async function print({ name, namespace, dir }: LocalReplica, flags: LogsFlags): Promise<void> {
  const follow = flags.follow === true;
  if (!follow && !existsSync(dir)) {
    const message = `the engine of ${namespace}/${name} has not been started on this machine yet`;
    throw new MetalbridgeError("LogNotFound", message, {
      summary: "see what it waits for; or pass -f to wait for its first line",
      command: `metalbridge describe ${name} -n ${namespace}`,
    });
  }
  const stop = listenForStop();
  const wanted = flags.tail === undefined ? (flags.all === true ? "all" : "current") : { lines: flags.tail };
  const output = readLog(dir, { wanted, follow, signal: stop.signal });
  try {
    await pipeline(output, process.stdout, { signal: stop.signal, end: false });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // `metalbridge logs X -f | head`: the reader has closed the pipe.
    const isPipeClosed = code === "EPIPE" || code === "ERR_STREAM_PREMATURE_CLOSE";
    if (!stop.signal.aborted && !isPipeClosed) throw error;
  }
  process.exitCode = stop.exitCode();
}

/** Ends at the end of the log, or, following, when the signal does or the engine's folder is gone. `dir` may come later. */
async function* readLog(dir: string, options: ReadOptions): AsyncGenerator<Buffer> {
  const { follow, signal, wanted } = options;
  const tell = (line: string) => process.stderr.write(`${line}\n`);
  if (!existsSync(dir)) tell("the engine has not been started yet; waiting for its first line");
  while (!existsSync(dir) && !signal.aborted) await waitMs(systemClock, POLL_MS, signal);
  const reader = new LogReader(dir, wanted);
  let losses = 0;
  while (!signal.aborted) {
    yield* reader.read();
    if (reader.losses > losses) tell("a part of the log was rotated away before it could be read");
    losses = reader.losses;
    if (!follow && !reader.isWaiting) return;
    if (!existsSync(dir)) {
      tell("the replica has left this host, and its log with it");
      return;
    }
    await waitMs(systemClock, POLL_MS, signal);
  }
}

/** The folder is named, because root's default is another one. */
function unreadable(error: Error, name: string, stateDir: string): MetalbridgeError {
  return new MetalbridgeError("LogUnreadable", error.message, {
    summary: "run it as the agent's user, or as root",
    command: `sudo metalbridge logs ${name} --state-dir ${shellWord(stateDir)}`,
  });
}

/** The cluster could not be asked: what is known then is what this machine's folder says. */
function notHere({ code, message }: MetalbridgeError, name: string, stateDir: string): MetalbridgeError {
  const both = `${stateDir} holds no log of ${name}, and where it is cannot be asked: ${code}: ${message}`;
  return new MetalbridgeError("LogNotFound", both, {
    summary: "if the agent here uses another state folder, name it, or its configuration with --config",
    command: `metalbridge logs ${shellWord(name)} --state-dir <folder>`,
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
