/** `metalbridge logs`: prints the log of a replica's engine, from its file on a host, or from the pods of a service. */

import { existsSync } from "node:fs";
import { type Command, Option } from "commander";
import { MetalbridgeError } from "../src/api/errors.ts";
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
import { readLog } from "./logs/read-log.ts";
import { printRemoteLog, type RemoteLogFlags } from "./logs/remote.ts";
import { printNote } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

type LogsFlags = LocalFlags & PodLogFlags & RemoteLogFlags;

const SOUGHT: LocalLookup = {
  verb: "logs",
  what: "log",
  file: "log",
  codes: { elsewhere: "LogOnAnotherHost", missing: "LogNotFound", refused: "LogUnreadable" },
};
/** Options and action of the verb. */
export function configureLogs(command: Command): void {
  const options = addNamespacedFlags(command)
    .addArgument(replicaArgument())
    .option("-f, --follow", "print new lines until Ctrl-C")
    .option(
      "--tail <lines>",
      "number of lines from the end, including rotated files (default: the whole current file)",
      countParser(0),
    )
    .addOption(new Option("--all", "include rotated files").conflicts("tail"))
    .option("-p, --previous", "for pods: print the log of the container before its last restart")
    .option("-c, --container <name>", "for pods: container to read, such as fetch (default: engine)");
  options.option(
    "--direct",
    "for a replica on another host: connect to the host directly, not through the cluster",
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
      summary: "see what the replica is waiting for, or pass -f to wait for the first line",
      command: `metalbridge describe ${name} -n ${namespace}`,
    });
  }
  const stop = listenForStop();
  const range = flags.tail === undefined ? (flags.all === true ? "all" : "current") : { lines: flags.tail };
  const output = readLog(dir, { range, follow, signal: stop.signal, note: printNote });
  await printBytes(output, stop);
  process.exitCode = stop.exitCode();
}
