/** `metalbridge rollout restart`: replaces the pods of a service, or updates it to its BackendRuntime, without a change of its spec. */
import { getCondition } from "../../src/api/conditions.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { ANNOTATION_RESTARTED_AT } from "../../src/api/group.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { withCluster } from "../cluster/cluster.ts";
import { patchObject } from "../cluster/failure.ts";
import { findObject } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { printLine } from "../program/output.ts";

export async function rolloutRestart(name: string, flags: ClusterFlags): Promise<void> {
  await withCluster("rollout", flags, async (cluster) => {
    const service = await findObject(cluster, INFERENCE_SERVICES, name);
    const { metadata, spec, status } = service;
    const isOutdated = getCondition(status?.conditions, "BackendRuntimeCurrent")?.reason === "UpdatePending";
    if (status?.on === "Hosts" && !isOutdated)
      throw new MetalbridgeError("RestartNotInPods", `service ${name} has replicas on hosts only`);
    const path = `/metadata/annotations/${ANNOTATION_RESTARTED_AT.replace("/", "~1")}`;
    const empty = { op: "add", path: "/metadata/annotations", value: {} } as const;
    await patchObject(cluster, INFERENCE_SERVICES, service, [
      ...(metadata.annotations === undefined ? [empty] : []),
      { op: "add", path, value: isoSeconds(Date.now()) },
    ]);
    const replaced = isOutdated
      ? `service ${name} is updated to the current revision of BackendRuntime ${spec.backendRuntime?.name}`
      : `the pods of service ${name} are being replaced`;
    printLine(`${replaced}\nto follow it: metalbridge rollout status ${name} -n ${cluster.namespace}`);
  });
}
