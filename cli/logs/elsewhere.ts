/** Says where the log of a replica is that this machine does not have. */

import { shellWord } from "../../local/shell-word.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { LABEL_SERVICE } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { listAll, lookUp, notFound } from "../cluster/find.ts";

export interface Search {
  readonly name: string;
  /** Further options, to be repeated in the command for the other host. */
  readonly flags: readonly string[];
  /** What was looked through on this machine. */
  readonly stateDir: string;
  /** The Host that this machine is, by the agent's configuration; without one, by the machine's name. */
  readonly hostName: string;
  /** Why it could not be, for this user. */
  readonly closed: string | undefined;
}

/** Always throws: ReplicaNotFound, NameAmbiguous, LogOnAnotherHost, LogNotFound or LogUnreadable. */
export async function explainElsewhere(cluster: Cluster, search: Search): Promise<never> {
  const replica = await findMeant(cluster, search.name);
  const { hostName } = replica.spec.template;
  if (hostName === search.hostName) throw here(replica, search);
  const host = await lookUp(cluster, HOSTS, hostName).catch(() => undefined);
  const address = host?.status?.addresses?.[0];
  const { name, namespace } = replica.metadata;
  const where = address === undefined ? hostName : `${hostName} (${address})`;
  throw new MetalbridgeError(
    "LogOnAnotherHost",
    `the log of ${namespace}/${name} is on host ${where}: engines/${replica.metadata.uid}/log in the state folder of the agent there`,
    {
      summary: `run this on ${hostName}, as the agent's user, with the agent's own --config or --state-dir where it has one`,
      command: commandFor(replica, search),
    },
  );
}

function here(replica: InferenceReplica, search: Search): MetalbridgeError {
  const { name, namespace } = replica.metadata;
  if (search.closed !== undefined) return unreadable(search);
  const message = `${namespace}/${name} is placed on this machine, but ${search.stateDir} holds no log of it`;
  return new MetalbridgeError("LogNotFound", message, {
    summary:
      "an engine that never started has none; if the agent uses another state folder, name it with --state-dir, or its configuration with --config",
    command: `metalbridge describe ${name} -n ${namespace}`,
  });
}

/** For a log that is, or may be, here. The folder is named, because root's default is another one. */
export function unreadable({ closed, name, stateDir }: Omit<Search, "flags" | "hostName">): MetalbridgeError {
  return new MetalbridgeError("LogUnreadable", closed ?? "", {
    summary: "run it as the agent's user, or as root",
    command: `sudo metalbridge logs ${name} --state-dir ${shellWord(stateDir)}`,
  });
}

async function findMeant(cluster: Cluster, name: string): Promise<InferenceReplica> {
  const exact = await lookUp(cluster, INFERENCE_REPLICAS, name);
  if (exact !== undefined) return exact;
  const ofService = await listAll(cluster, INFERENCE_REPLICAS, {
    namespace: cluster.namespace,
    labelSelector: `${LABEL_SERVICE}=${name}`,
  });
  const [first] = ofService;
  if (first === undefined) return notFound(cluster, INFERENCE_REPLICAS, "ReplicaNotFound", name);
  if (ofService.length === 1) return first;
  const list = ofService
    .map(({ metadata, spec }) => `${metadata.name} (on ${spec.template.hostName})`)
    .sort();
  throw new MetalbridgeError("NameAmbiguous", `service ${name} has several replicas: ${list.join(", ")}`, {
    summary: "name one of them",
    command: `metalbridge logs ${first.metadata.name} -n ${cluster.namespace}`,
  });
}

function commandFor({ metadata }: InferenceReplica, { flags }: Search): string {
  return ["metalbridge logs", metadata.name, "-n", metadata.namespace, ...flags].join(" ");
}
