/** Prints the log of a replica on another host, if the administrator of that host has enabled remote access to logs. */
import { StringDecoder } from "node:string_decoder";
import { LOGS_ACCOUNT, TRAILER_END, TRAILER_LOSSES } from "../../src/api/access/remote.ts";
import { MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { requestHost } from "../../src/kube/remote/request.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import { terminalText } from "../../src/util/terminal-text.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findIfPresent } from "../cluster/find.ts";
import { printNote } from "../program/output.ts";
import { listenForStop } from "../program/stop-signals.ts";
import { resolveReplica } from "./not-local.ts";
import { printBytes } from "./print.ts";

export interface RemoteLogFlags {
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
export async function printRemoteLog(
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
