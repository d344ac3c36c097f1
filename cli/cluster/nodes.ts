/** Nodes as the controller describes them: with their ResourceSlices and reports, as far as the account may read these. */

import { keyOf } from "../../src/api/names.ts";
import { type NodeReportRead, nodeReportName } from "../../src/api/node-report.ts";
import type { Devices } from "../../src/capacity/devices/devices.ts";
import { INFORMERS } from "../../src/cluster/informers.ts";
import { hardwareOf, type NodeReports, nodeReportOf } from "../../src/cluster/nodes.ts";
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
  const [slices, nodeReports] = await Promise.all([
    listIfAllowed(cluster, INFORMERS.slices.kind, ofOne),
    listReports(cluster, only),
  ]);
  const byNode = Map.groupBy(slices, ({ spec }) => spec.nodeName);
  const resourceSlicesOfNode = { of: (node: string) => byNode.get(node) ?? [] };
  return nodes.map((node) => ({
    node,
    devices: hardwareOf(node, { nodeReports, resourceSlicesOfNode }).devices,
    report: nodeReportOf(node.metadata.name, nodeReports),
  }));
}

/** The reports of all nodes, or of one. */
export async function listReports(cluster: Cluster, node?: string): Promise<NodeReports> {
  const fieldSelector = node === undefined ? undefined : `metadata.name=${nodeReportName(node)}`;
  const { kind, ...selection } = INFORMERS.reports;
  const items = await listIfAllowed(cluster, kind, { ...selection, fieldSelector });
  const reports = new Map(items.map((item) => [keyOf(item.metadata), item]));
  return { get: (key) => reports.get(key) };
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
