/** `metalbridge logs`: prints the log of a replica's engine, from its file on a host, or from the pods of a service. */

import { existsSync } from "node:fs";
import { pipeline } from "node:stream/promises";
import { StringDecoder } from "node:string_decoder";
import { type Command, Option } from "commander";
import { LOGS_ACCOUNT, TRAILER_END, TRAILER_LOSSES } from "../src/api/access/remote.ts";
import { MetalbridgeError, remedyOf } from "../src/api/errors.ts";
import { HOSTS } from "../src/api/kinds.ts";
import { requestHost } from "../src/kube/remote/request.ts";
import { errorMessage } from "../src/util/error-message.ts";
import { terminalText } from "../src/util/terminal-text.ts";
import type { Cluster } from "./cluster/cluster.ts";
import { findIfPresent } from "./cluster/find.ts";
import { addNamespacedFlags, countParser } from "./cluster/flags.ts";
import type { LocalReplica } from "./logs/local.ts";
import {
  addLocalFlags,
  type LocalFlags,
  type LocalLookup,
  replicaArgument,
  useLocal,
} from "./logs/locate.ts";
import { resolveReplica } from "./logs/not-local.ts";
import { type PodLogFlags, printPodLogs } from "./logs/pods.ts";
import { readLog } from "./logs/read-log.ts";
import { printNote } from "./program/output.ts";
import { listenForStop, type StopRequest } from "./program/stop-signals.ts";

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

/** Prints the log of a replica on another host, if the administrator of that host has enabled remote access to logs. */
interface RemoteLogFlags {
  readonly follow?: boolean;
  readonly tail?: number;
  readonly all?: boolean;
  readonly direct?: boolean;
}

const HEAD_MS = 15_000;
const END_NOTES: Readonly<Record<string, string>> = {
  left: "the replica has left this host, and its log with it",
  time: "the host stops following a log after an hour: run the command again, with --tail",
  size: "the host sends no more than this at once: read the rest with --tail",
};

/** Resolves with false if the host offers no logs. */
async function printRemoteLog(
  cluster: Cluster,
  name: string,
  { follow, tail, all, direct = false }: RemoteLogFlags,
): Promise<boolean> {
  const { metadata, spec } = await resolveReplica(cluster, name, "logs");
  const host = await findIfPresent(cluster, HOSTS, spec.template.hostName).catch(() => undefined);
  if (host?.status?.remote?.logs !== true) return false;
  const query = new URLSearchParams();
  if (follow === true) query.set("follow", "1");
  if (all === true) query.set("all", "1");
  if (tail !== undefined) query.set("tail", String(tail));
  const stop = listenForStop();
  const { namespace = cluster.namespace } = metadata;
  const answer = await requestHost({
    connection: cluster.connection,
    host,
    direct,
    signal: stop.signal,
    timeoutMs: HEAD_MS,
    path: `/v1/logs/${metadata.uid}?${query}`,
    account: { namespace, name: LOGS_ACCOUNT },
    role: "metalbridge-host-logs",
  });
  await printBytes(withoutControlCharacters(answer, host.metadata.name, stop.signal), stop);
  if (!stop.signal.aborted) printEndNotes(answer.trailers);
  process.exitCode = stop.exitCode();
  return true;
}

/** Removes control characters, because the text comes from another machine. */
async function* withoutControlCharacters(
  answer: AsyncIterable<Buffer>,
  host: string,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const decoder = new StringDecoder("utf8");
  try {
    for await (const bytes of answer) yield terminalText(decoder.write(bytes));
  } catch (error) {
    if (!signal.aborted) throw logInterrupted(host, error);
  }
}

function printEndNotes(trailers: NodeJS.Dict<string>): void {
  if ((trailers[TRAILER_LOSSES] ?? "0") !== "0")
    printNote("a part of the log was rotated away before it could be read");
  const note = END_NOTES[trailers[TRAILER_END] ?? ""];
  if (note !== undefined) printNote(note);
}

function logInterrupted(host: string, cause: unknown): MetalbridgeError {
  const why = errorMessage(cause);
  const remedy = remedyOf("RemoteHostUnreachable", { host });
  return new MetalbridgeError("RemoteHostUnreachable", `host ${host} ended the log: ${why}`, remedy, {
    cause,
  });
}

/** Resolves at the end, after Ctrl-C, and when the reader has closed the pipe. */
async function printBytes(output: AsyncIterable<Buffer | string>, { signal }: StopRequest): Promise<void> {
  try {
    await pipeline(output, process.stdout, { signal, end: false });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // A closed pipe is no failure: `metalbridge logs X -f | head`.
    const isPipeClosed = code === "EPIPE" || code === "ERR_STREAM_PREMATURE_CLOSE";
    if (!signal.aborted && !isPipeClosed) throw error;
  }
}
