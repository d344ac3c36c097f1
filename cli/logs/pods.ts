/** Prints the logs of the pods of a service from the API server, and names the hosts that also run the service. */
import { createInterface } from "node:readline";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { ENGINE_CONTAINER, LABEL_SERVICE } from "../../src/api/group.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import { PODS } from "../../src/kube/kinds.ts";
import type { Pod } from "../../src/kube/workload-objects.ts";
import { compareText } from "../../src/util/text.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findIfPresent, listAll } from "../cluster/find.ts";
import { printLine, printNote } from "../program/output.ts";
import { listenForStop } from "../program/stop-signals.ts";

export interface PodLogFlags {
  readonly follow?: boolean;
  readonly tail?: number;
  /** Reads the container that ran before the last restart. */
  readonly previous?: boolean;
  readonly container?: string;
}

/** Time limit for the response headers only, because a followed log has no end. */
const HEAD_MS = 15_000;

/** Resolves with false if the name matches no pod of a service. */
export async function printPodLogs(cluster: Cluster, name: string, flags: PodLogFlags): Promise<boolean> {
  if ((await findIfPresent(cluster, INFERENCE_REPLICAS, name)) !== undefined) return false;
  const pods = await podsOf(cluster, name);
  if (pods.length === 0) return false;
  const { namespace } = cluster;
  const labelSelector = `${LABEL_SERVICE}=${name}`;
  const others = await listAll(cluster, INFERENCE_REPLICAS, { namespace, labelSelector });
  for (const { metadata, spec } of others)
    printNote(`replica ${metadata.name} is on host ${spec.template.hostName}: run metalbridge logs there`);
  const stop = listenForStop();
  const ends = await Promise.all(
    pods.map((pod) =>
      print(
        cluster,
        pod,
        { ...flags, prefix: pods.length === 1 ? "" : `[${pod.metadata.name}] ` },
        stop.signal,
      ),
    ),
  );
  const failed = ends.filter((end) => end !== undefined);
  const [first] = failed;
  if (first !== undefined && failed.length === pods.length) throw first;
  for (const { message } of failed) printNote(message);
  process.exitCode = stop.exitCode();
  return true;
}

/** The pods of the service or the pod of that name, oldest first. */
async function podsOf(cluster: Cluster, name: string): Promise<readonly Pod[]> {
  const { namespace } = cluster;
  const ofService = await listAll(cluster, PODS, { namespace, labelSelector: `${LABEL_SERVICE}=${name}` });
  const createdAt = ({ metadata }: Pod) => metadata.creationTimestamp ?? "";
  if (ofService.length > 0) return [...ofService].sort((a, b) => compareText(createdAt(a), createdAt(b)));
  const exact = await findIfPresent(cluster, PODS, name);
  return exact?.metadata.labels?.[LABEL_SERVICE] === undefined ? [] : [exact];
}

/** Resolves with an error if there is no log to print. */
async function print(
  { connection, namespace }: Cluster,
  { metadata: { name } }: Pod,
  flags: PodLogFlags & { readonly prefix: string },
  signal: AbortSignal,
): Promise<MetalbridgeError | undefined> {
  const query = new URLSearchParams({
    container: flags.container ?? ENGINE_CONTAINER,
    ...(flags.follow === true ? { follow: "true" } : {}),
    ...(flags.previous === true ? { previous: "true" } : {}),
    ...(flags.tail === undefined ? {} : { tailLines: String(flags.tail) }),
  });
  const path = `/api/v1/namespaces/${namespace}/pods/${name}/log?${query}`;
  const answer = await connection.stream({ method: "GET", path, timeoutMs: HEAD_MS, signal });
  if (signal.aborted) return undefined;
  if (!answer.ok) {
    const { code, message } = explainFailure(answer.error);
    return new MetalbridgeError(code, `the log of pod ${name} cannot be read: ${message}`, {
      summary:
        "see what the pod waits for; -c names another container, such as fetch, and -p reads the one before a restart",
      command: `kubectl describe pod ${name} -n ${namespace}`,
    });
  }
  try {
    for await (const line of createInterface({ input: answer.value })) printLine(`${flags.prefix}${line}`);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return undefined;
}
