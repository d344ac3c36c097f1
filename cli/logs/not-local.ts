/** Explains where the log or the terminal of a replica is, if it is not on this machine. */
import { type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
import { LABEL_SERVICE } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findIfPresent, listAll, notFound } from "../cluster/find.ts";
import { ambiguousName } from "./local.ts";

/** The state folder that was read on this machine, and the name of this machine's Host. */
interface LocalHost {
  readonly stateDir: string;
  readonly hostName: string;
}

/** The file that a verb needs, and the words for messages about the file. */
export interface LookupTarget {
  readonly verb: "logs" | "attach";
  readonly what: "log" | "terminal";
  /** Its name in the folder of the engine. */
  readonly file: string;
  readonly codes: { readonly elsewhere: ErrorCode; readonly missing: ErrorCode };
}

/** Always throws: ReplicaNotFound, NameAmbiguous, or one of the codes of the target. */
export async function explainNotLocal(
  cluster: Cluster,
  requestedName: string,
  local: LocalHost,
  { verb, what, file, codes }: LookupTarget,
): Promise<never> {
  const { metadata, spec } = await resolveReplica(cluster, requestedName, verb);
  const { name, namespace, uid } = metadata;
  const { hostName } = spec.template;
  if (hostName === local.hostName) {
    const message = `${namespace}/${name} is placed on this machine, but ${local.stateDir} has no ${what} of it`;
    throw new MetalbridgeError(codes.missing, message, {
      summary:
        "an engine that never started has none; if the agent uses another state folder, pass --state-dir or --config",
      command: `metalbridge describe ${name} -n ${namespace}`,
    });
  }
  const host = await findIfPresent(cluster, HOSTS, hostName).catch(() => undefined);
  const address = host?.status?.addresses?.[0];
  const where = address === undefined ? hostName : `${hostName} (${address})`;
  const message = `the ${what} of ${namespace}/${name} is on host ${where}: engines/${uid}/${file} in the state folder of the agent there`;
  throw new MetalbridgeError(codes.elsewhere, message, {
    summary: `run this on ${hostName}, as the user of the agent, with the --config or --state-dir of the agent if it has one${remoteHint(verb)}`,
    command: `metalbridge ${verb} ${name} -n ${namespace}`,
  });
}

function remoteHint(verb: LookupTarget["verb"]): string {
  if (verb !== "logs") return "";
  return "; to read it from this machine, an administrator must enable remoteAccess.logs on that host (docs/logs.md)";
}

/** The replica of that name, or the only one of the service. Throws ReplicaNotFound, NameAmbiguous. */
export async function resolveReplica(
  cluster: Cluster,
  name: string,
  verb: LookupTarget["verb"],
): Promise<InferenceReplica> {
  const exact = await findIfPresent(cluster, INFERENCE_REPLICAS, name);
  if (exact !== undefined) return exact;
  const { namespace } = cluster;
  const labelSelector = `${LABEL_SERVICE}=${name}`;
  const ofService = await listAll(cluster, INFERENCE_REPLICAS, { namespace, labelSelector });
  const [first] = ofService;
  if (first === undefined) return notFound(cluster, INFERENCE_REPLICAS, name);
  if (ofService.length === 1) return first;
  const list = ofService.map((one) => `${one.metadata.name} (on ${one.spec.template.hostName})`);
  const message = `service ${name} has several replicas: ${list.sort().join(", ")}`;
  throw ambiguousName(message, { namespace, name: first.metadata.name }, verb);
}
