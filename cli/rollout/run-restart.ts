/** `metalbridge rollout restart`: asks for new pods of a service whose spec stays as it is. */
import { MetalbridgeError } from "../../src/api/errors.ts";
import { ANNOTATION_RESTARTED_AT } from "../../src/api/group.ts";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import { withCluster } from "../cluster/cluster.ts";
import { explainAttempt } from "../cluster/failure.ts";
import { findObject } from "../cluster/find.ts";
import type { ClusterFlags } from "../cluster/flags.ts";
import { printLine } from "../program/output.ts";

export async function rolloutRestart(name: string, flags: ClusterFlags): Promise<void> {
  await withCluster("rollout", flags, async (cluster) => {
    const { metadata, status } = await findObject(cluster, INFERENCE_SERVICES, name);
    if (status?.on === "Hosts")
      throw new MetalbridgeError("RestartNotInPods", `service ${name} has replicas on hosts only`);
    const path = `/metadata/annotations/${ANNOTATION_RESTARTED_AT.replace("/", "~1")}`;
    const result = await cluster.client.jsonPatch(INFERENCE_SERVICES, metadata, [
      { op: "test", path: "/metadata/uid", value: metadata.uid },
      ...(metadata.annotations === undefined
        ? [{ op: "add" as const, path: "/metadata/annotations", value: {} }]
        : []),
      { op: "add", path, value: isoSeconds(Date.now()) },
    ]);
    if (!result.ok)
      throw explainAttempt({ verb: "patch", kind: INFERENCE_SERVICES, name, ...cluster }, result.error);
    printLine(
      `the pods of service ${name} are replaced as its rollout settings say\nfollow it: metalbridge rollout status ${name} -n ${cluster.namespace}`,
    );
  });
}
