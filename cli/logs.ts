/** `metalbridge logs`: what a replica's engine has written, from the file on its own host, or of a service's pods. */

import { existsSync } from "node:fs";
import { type Command, Option } from "commander";
import { type LogRange, LogReader } from "../agent/remote/log-reader.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { waitMs } from "../src/kube/wait.ts";
import type { Cluster } from "./cluster/cluster.ts";
import { addNamespacedFlags, countParser } from "./cluster/flags.ts";
import type { LocalReplica } from "./logs/local.ts";
import {
  addLocalFlags,
  type LocalFlags,
  type LocalLookup,
  replicaArgument,
  useLocal,
} from "./logs/locate.ts";
import { type PodLogFlags, printPodLogs } from "./logs/pods.ts";
import { printBytes } from "./logs/print.ts";
import { printRemoteLog, type RemoteLogFlags } from "./logs/remote.ts";
import { printNote } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

type LogsFlags = LocalFlags & PodLogFlags & RemoteLogFlags;

interface ReadOptions {
  readonly wanted: LogRange;
  readonly follow: boolean;
  readonly signal: AbortSignal;
}

const SOUGHT: LocalLookup = {
  verb: "logs",
  what: "log",
  file: "log",
  codes: { elsewhere: "LogOnAnotherHost", missing: "LogNotFound", refused: "LogUnreadable" },
};
/** How long a new line may wait. */
const POLL_MS = 200;

/** Options and action of the verb. */
export function configureLogs(command: Command): void {
  const options = addNamespacedFlags(command)
    .addArgument(replicaArgument())
    .option("-f, --follow", "keep printing new lines until Ctrl-C")
    .option(
      "--tail <lines>",
      "last N lines, across rotated files (default: the whole current file)",
      countParser(0),
    )
    .addOption(new Option("--all", "include rotated files").conflicts("tail"))
    .option("-p, --previous", "in pods: of the container before its last restart")
    .option("-c, --container <name>", "in pods: another container, such as fetch (default: engine)");
  options.option(
    "--direct",
    "of a replica on another host: connect to the host itself, not through the cluster",
  );
  addLocalFlags(options).action(logs);
}

async function logs(name: string, flags: LogsFlags): Promise<void> {
  const elsewhere = async (cluster: Cluster, named: string) =>
    (await printPodLogs(cluster, named, flags)) || (await printRemoteLog(cluster, named, flags));
  await useLocal(name, flags, { ...SOUGHT, elsewhere }, (replica) => print(replica, flags));
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
  await printBytes(output, stop);
  process.exitCode = stop.exitCode();
}

/** Ends at the end of the log, or, following, when the signal does or the engine's folder is gone. `dir` may come later. */
async function* readLog(dir: string, options: ReadOptions): AsyncGenerator<Buffer> {
  const { follow, signal, wanted } = options;
  if (!existsSync(dir)) printNote("the engine has not been started yet; waiting for its first line");
  while (!existsSync(dir) && !signal.aborted) await waitMs(systemClock, POLL_MS, signal);
  const reader = await LogReader.open(dir, wanted, signal);
  let losses = 0;
  while (!signal.aborted) {
    yield* reader.read();
    if (reader.losses > losses) printNote("a part of the log was rotated away before it could be read");
    losses = reader.losses;
    if (!follow && !reader.isWaiting) return;
    if (!existsSync(dir)) {
      printNote("the replica has left this host, and its log with it");
      return;
    }
    await waitMs(systemClock, POLL_MS, signal);
  }
}
