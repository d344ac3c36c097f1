/** Says where the log of a replica is that this machine does not have. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { LABEL_SERVICE } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { listAll, lookUp, notFound } from "../cluster/find.ts";
import { ambiguous } from "./local.ts";

/** What was read on this machine, and the Host that it is. */
interface Here {
  readonly stateDir: string;
  readonly hostName: string;
}

/** Always throws: ReplicaNotFound, NameAmbiguous, LogOnAnotherHost or LogNotFound. */
export async function explainElsewhere(cluster: Cluster, asked: string, here: Here): Promise<never> {
  const { metadata, spec } = await findMeant(cluster, asked);
  const { name, namespace, uid } = metadata;
  const { hostName } = spec.template;
  if (hostName === here.hostName) {
    const message = `${namespace}/${name} is placed on this machine, but ${here.stateDir} holds no log of it`;
    throw new MetalbridgeError("LogNotFound", message, {
      summary:
        "an engine that never started has none; if the agent uses another state folder, name it with --state-dir, or its configuration with --config",
      command: `metalbridge describe ${name} -n ${namespace}`,
    });
  }
  const host = await lookUp(cluster, HOSTS, hostName).catch(() => undefined);
  const address = host?.status?.addresses?.[0];
  const where = address === undefined ? hostName : `${hostName} (${address})`;
  const message = `the log of ${namespace}/${name} is on host ${where}: engines/${uid}/log in the state folder of the agent there`;
  throw new MetalbridgeError("LogOnAnotherHost", message, {
    summary: `run this on ${hostName}, as the agent's user, with the agent's own --config or --state-dir where it has one`,
    command: `metalbridge logs ${name} -n ${namespace}`,
  });
}

async function findMeant(cluster: Cluster, name: string): Promise<InferenceReplica> {
  const exact = await lookUp(cluster, INFERENCE_REPLICAS, name);
  if (exact !== undefined) return exact;
  const { namespace } = cluster;
  const labelSelector = `${LABEL_SERVICE}=${name}`;
  const ofService = await listAll(cluster, INFERENCE_REPLICAS, { namespace, labelSelector });
  const [first] = ofService;
  if (first === undefined) return notFound(cluster, INFERENCE_REPLICAS, "ReplicaNotFound", name);
  if (ofService.length === 1) return first;
  const list = ofService.map((one) => `${one.metadata.name} (on ${one.spec.template.hostName})`);
  throw ambiguous(`service ${name} has several replicas: ${list.sort().join(", ")}`, {
    namespace,
    name: first.metadata.name,
  });
}
