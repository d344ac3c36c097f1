/** Where the log of each replica of a service is: in a pod, on this machine, or on another host. */
import type { IncomingMessage } from "node:http";
import { LOGS_ACCOUNT, TRAILER_END, TRAILER_LOSSES } from "../../../src/api/access/remote.ts";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { ENGINE_CONTAINER, LABEL_SERVICE } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import { createClient } from "../../../src/kube/client/create-client.ts";
import { PODS } from "../../../src/kube/kinds.ts";
import { objectPath } from "../../../src/kube/paths.ts";
import { requestHost } from "../../../src/kube/remote/request.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import type { Reader } from "../reader.ts";
import { unwrapAnswer } from "../refusal.ts";

export interface LogRequest {
  readonly namespace: string;
  readonly service: string;
  /** Name of an InferenceReplica or of a pod. Absent: all of the service. */
  readonly replica?: string | undefined;
  readonly tail: number;
  readonly follow: boolean;
}

export interface ReplicaOnHost {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** The log of a replica on this machine. Undefined if this machine does not run it. */
export type ReadLocalLog = (
  replica: ReplicaOnHost,
  options: Pick<LogRequest, "tail" | "follow"> & { readonly signal: AbortSignal },
) => AsyncIterable<Buffer> | undefined;

export interface LogSource {
  readonly replica: string;
  /** Lines begin with a time. */
  readonly hasTimes: boolean;
  /** Rejects with MetalbridgeError if the log cannot be read. */
  readonly open: (signal: AbortSignal) => Promise<AsyncIterable<Buffer>>;
  /** Called after the last line: what the reader should know about the end. */
  readonly endNotes: () => readonly string[];
}

/** Time limit for the response headers, because a followed log has no end. */
const HEAD_MS = 15_000;
/** No page shows more logs at once. */
const MAX_SOURCES = 32;

const END_NOTES: Readonly<Record<string, string>> = {
  left: "the replica has left its host, and its log with it",
  time: "the host stops following a log after an hour: reload the log",
  size: "the host sends no more than this at once: reload the log",
};

/** With the reader's rights. Rejects with MetalbridgeError, for example if nothing has that name. */
export async function findLogSources(
  reader: Reader,
  request: LogRequest,
  readLocal: ReadLocalLog | undefined,
): Promise<readonly LogSource[]> {
  const client = createClient(reader.connection);
  const { namespace, service, replica } = request;
  const query = { namespace, labelSelector: `${LABEL_SERVICE}=${service}` };
  const [replicas, pods] = await Promise.all([
    client.list(INFERENCE_REPLICAS, query),
    client.list(PODS, query),
  ]);
  // A reader of replicas on hosts needs no right to pods, and the reverse.
  if (!replicas.ok && !pods.ok) unwrapAnswer(replicas);
  const sources = [
    ...(replicas.ok ? replicas.value.items : []).map((one) => hostSource(reader, request, one, readLocal)),
    ...(pods.ok ? pods.value.items : []).map((one) => podSource(reader, request, one)),
  ].filter((source) => replica === undefined || source.replica === replica);
  if (sources.length > 0) return sources.slice(0, MAX_SOURCES);
  const what = replica === undefined ? `service ${service}` : `${replica} of service ${service}`;
  throw new MetalbridgeError("ReplicaNotFound", `${namespace}: ${what} has no replica`);
}

function podSource({ connection }: Reader, { namespace, tail, follow }: LogRequest, pod: Pod): LogSource {
  const { name } = pod.metadata;
  const path = objectPath(PODS, { namespace, name }, "log", {
    container: ENGINE_CONTAINER,
    timestamps: "true",
    tailLines: String(tail),
    follow: follow ? "true" : undefined,
  });
  return {
    replica: name,
    hasTimes: true,
    open: async (signal) =>
      unwrapAnswer(await connection.stream({ method: "GET", path, timeoutMs: HEAD_MS, signal })),
    endNotes: () => [],
  };
}

function hostSource(
  reader: Reader,
  { tail, follow, namespace }: LogRequest,
  { metadata, spec }: InferenceReplica,
  readLocal: ReadLocalLog | undefined,
): LogSource {
  const { name, uid = "" } = metadata;
  const { hostName } = spec.template;
  let answer: IncomingMessage | undefined;
  return {
    replica: name,
    hasTimes: false,
    open: async (signal) => {
      const local = readLocal?.({ namespace, name, uid }, { tail, follow, signal });
      if (local !== undefined) return local;
      const { connection } = reader;
      const host = unwrapAnswer(await createClient(connection).get(HOSTS, { name: hostName }));
      if (host.status?.remote?.logs !== true)
        throw new MetalbridgeError("LogOnAnotherHost", `host ${hostName} does not offer its logs`, {
          summary: `set remoteAccess.logs in the configuration of its agent, or read the log on ${hostName}`,
          command: `metalbridge logs ${name} -n ${namespace}`,
        });
      const query = new URLSearchParams({ tail: String(tail) });
      if (follow) query.set("follow", "1");
      answer = await requestHost({
        connection,
        host,
        direct: false,
        signal,
        timeoutMs: HEAD_MS,
        path: `/v1/logs/${uid}?${query}`,
        account: { namespace, name: LOGS_ACCOUNT },
        role: "metalbridge-host-logs",
      });
      return answer;
    },
    endNotes: () => endNotesOf(answer?.trailers ?? {}),
  };
}

function endNotesOf(trailers: NodeJS.Dict<string>): readonly string[] {
  const isLossy = (trailers[TRAILER_LOSSES] ?? "0") !== "0";
  const lost = isLossy ? ["a part of the log was rotated away before it could be read"] : [];
  const end = END_NOTES[trailers[TRAILER_END] ?? ""];
  return end === undefined ? lost : [...lost, end];
}
