/** `metalbridge host lost`: the operator confirms that a machine is lost, so that its replicas are rescheduled at once. */

import { getCondition, isConditionTrue } from "../../src/api/conditions.ts";
import { ANNOTATION_LOST, LOST_BY_FORCE } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import type { JsonPatchOp } from "../../src/kube/types.ts";
import { type Cluster, withCluster } from "../cluster/cluster.ts";
import { explainAttempt } from "../cluster/failure.ts";
import { findObject, listAll } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { confirm } from "../program/confirm.ts";
import { printLine, printNote } from "../program/output.ts";

interface LostFlags extends ClusterFlags {
  readonly yes?: boolean;
  /** Does not wait until the Lease expires. */
  readonly force?: boolean;
}

/** Maximum number of attempts. The agent writes the status every few seconds, which causes harmless conflicts. */
const ATTEMPTS = 10;

export async function hostLost(name: string, flags: LostFlags): Promise<void> {
  await withCluster("host", flags, async (cluster) => {
    const host = await findObject(cluster, HOSTS, name);
    const since = host.metadata.annotations?.[ANNOTATION_LOST];
    const isStronger = flags.force === true && since?.startsWith(LOST_BY_FORCE) !== true;
    if (since !== undefined && !isStronger && isConditionTrue(host.status?.conditions, "Lost")) {
      printLine(`host ${name} is already marked lost: ${since}`);
      return;
    }
    const replicas = await listAll(cluster, INFERENCE_REPLICAS, {
      fieldSelector: `spec.template.hostName=${name}`,
    });
    const names = replicas.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`).sort();
    printConsequences(host, names, flags);
    if (flags.yes !== true) await confirm(`mark host ${name} as lost?`);
    await markLost(cluster, host, flags);
    printLine(`host ${name} is marked lost${names.length === 0 ? "" : "; its replicas will be rescheduled"}`);
    printLine(
      flags.force === true
        ? `the host stays lost, even if its agent reports again, until you run: kubectl annotate host ${name} ${ANNOTATION_LOST}-`
        : "if the machine returns, its agent stops the engines of rescheduled replicas",
    );
  });
}

async function markLost(cluster: Cluster, found: Host, { force = false }: LostFlags): Promise<void> {
  const { name, uid } = found.metadata;
  let host = found;
  for (let attempt = 1; ; attempt += 1) {
    const result = await cluster.client.jsonPatch(
      HOSTS,
      { name },
      lostOperations(host, `${force ? `${LOST_BY_FORCE} ` : ""}${new Date().toISOString()}`),
    );
    if (result.ok) return;
    const isRace = result.error.kind === "conflict" || result.error.kind === "invalid";
    host = isRace && attempt < ATTEMPTS ? await findObject(cluster, HOSTS, name) : host;
    // A recreated Host of the same name may be another machine, which the operator has not confirmed.
    if (!isRace || attempt === ATTEMPTS || host.metadata.uid !== uid)
      throw explainAttempt({ verb: "patch", kind: HOSTS, name }, result.error);
  }
}

function printConsequences(host: Host, replicas: readonly string[], { force = false }: LostFlags): void {
  const { name } = host.metadata;
  const reachable = getCondition(host.status?.conditions, "Reachable");
  if (reachable?.status === "True" && force)
    printNote(
      `host ${name} renewed its Lease within the last 40 s: it is marked lost at once because of --force`,
    );
  else if (reachable?.status === "True")
    printNote(
      `host ${name} renewed its Lease within the last 40 s: it is marked lost once the Lease expires, unless its agent renews it first`,
    );
  else if (reachable !== undefined) printNote(`host ${name}: ${reachable.message}`);
  printNote(
    replicas.length === 0
      ? "the host has no replicas"
      : `replicas on the host: ${replicas.join(", ")}; engines that still run get no requests once the host is marked lost`,
  );
}

/** For a host without annotations, the resource version is tested, so that the first annotation of another client is not overwritten. */
export function lostOperations({ metadata }: Host, mark: string): readonly JsonPatchOp[] {
  const guard: JsonPatchOp = { op: "test", path: "/metadata/uid", value: metadata.uid };
  if (metadata.annotations === undefined) {
    return [
      guard,
      { op: "test", path: "/metadata/resourceVersion", value: metadata.resourceVersion },
      { op: "add", path: "/metadata/annotations", value: { [ANNOTATION_LOST]: mark } },
    ];
  }
  const path = `/metadata/annotations/${ANNOTATION_LOST.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  return [guard, { op: "add", path, value: mark }];
}
