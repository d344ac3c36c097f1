/** Nodes as the controller describes them: with their ResourceSlices and reports, as far as the account may read these. */
import { LABEL_NODE_REPORT, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { type NodeReportRead, nodeReportName, reportInConfigMap } from "../../src/api/node-report.ts";
import type { Devices } from "../../src/capacity/devices/devices.ts";
import { devicesOfNode } from "../../src/capacity/devices/node.ts";
import { CONFIG_MAPS, RESOURCE_SLICES } from "../../src/kube/kinds.ts";
import type { ConfigMap } from "../../src/kube/objects.ts";
import type { Kind, KubeObject, ListOptions } from "../../src/kube/types.ts";
import type { Node } from "../../src/kube/workload-objects.ts";
import type { Cluster } from "./cluster.ts";
import { explainAttempt } from "./failure.ts";

export interface DescribedNode {
  readonly node: Node;
  readonly devices: Devices;
  /** Undefined if the node has published no report. */
  readonly report: NodeReportRead | undefined;
}

export async function describeNodes(
  cluster: Cluster,
  nodes: readonly Node[],
): Promise<readonly DescribedNode[]> {
  // One node needs only its own objects.
  const only = nodes.length === 1 ? nodes[0]?.metadata.name : undefined;
  const ofOne = only === undefined ? {} : { fieldSelector: `spec.nodeName=${only}` };
  const [slices, reports] = await Promise.all([
    listIfAllowed(cluster, RESOURCE_SLICES, ofOne),
    listReports(cluster, only),
  ]);
  const byNode = Map.groupBy(slices, ({ spec }) => spec.nodeName);
  return nodes.map((node) => {
    const { name } = node.metadata;
    const report = reportInConfigMap(reports.get(nodeReportName(name)));
    const known = report?.at === "known" ? report.report : undefined;
    return { node, report, devices: devicesOfNode(node, byNode.get(name) ?? [], known) };
  });
}

/** Reports by the name of their ConfigMap; with a name only the report of that node. */
export async function listReports(cluster: Cluster, node?: string): Promise<ReadonlyMap<string, ConfigMap>> {
  const fieldSelector = node === undefined ? undefined : `metadata.name=${nodeReportName(node)}`;
  const options = { namespace: NAMESPACE_SYSTEM, labelSelector: LABEL_NODE_REPORT, fieldSelector };
  const items = await listIfAllowed(cluster, CONFIG_MAPS, options);
  return new Map(items.map((item) => [item.metadata.name, item]));
}

/** Empty without the right to list the kind, or if the cluster lacks it. Throws other failures. */
export async function listIfAllowed<T extends KubeObject>(
  { client }: Cluster,
  kind: Kind<T>,
  options: ListOptions = {},
): Promise<readonly T[]> {
  const result = await client.list(kind, options);
  if (result.ok) return result.value.items;
  if (result.error.kind === "forbidden" || result.error.kind === "notFound") return [];
  throw explainAttempt({ verb: "list", kind, namespace: options.namespace }, result.error);
}
