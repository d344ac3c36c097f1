/** Reads nodes for fitness, from their Node objects and the reports that they publish. */

import { LABEL_NODE_REPORT, NAMESPACE_SYSTEM } from "../../../src/api/group.ts";
import { keyOf } from "../../../src/api/names.ts";
import {
  type NodeReport,
  type NodeReportRead,
  nodeReportName,
  reportInConfigMap,
} from "../../../src/api/node-report.ts";
import type { Devices } from "../../../src/capacity/devices/devices.ts";
import { devicesOfNode } from "../../../src/capacity/devices/node.ts";
import type { Fitness, NodeRead } from "../../../src/capacity/fitness.ts";
import { CONFIG_MAPS } from "../../../src/kube/kinds.ts";
import type { ConfigMap } from "../../../src/kube/objects.ts";
import type { Reflector } from "../../../src/kube/types.ts";
import type { Node, ResourceSlice } from "../../../src/kube/workload-objects.ts";

/** Selects the reports of nodes for a watch. */
export const NODE_REPORTS = {
  kind: CONFIG_MAPS,
  namespace: NAMESPACE_SYSTEM,
  labelSelector: LABEL_NODE_REPORT,
} as const;

/** Parsed reports, because each pass reads all of them. The watch delivers a new object with each change. */
const known = new WeakMap<ConfigMap, NodeReportRead | undefined>();

/** Undefined if the node has published no report. */
function nodeReportOf(node: string, reports: Pick<Reflector<ConfigMap>, "get">): NodeReportRead | undefined {
  const map = reports.get(keyOf({ namespace: NAMESPACE_SYSTEM, name: nodeReportName(node) }));
  if (map !== undefined && !known.has(map)) known.set(map, reportInConfigMap(map));
  return map && known.get(map);
}

/** The hardware of a node, and its report if that can be read. */
export function hardwareOf(
  node: Node,
  watches: {
    readonly nodeReports: Pick<Reflector<ConfigMap>, "get">;
    readonly resourceSlicesOfNode: { readonly of: (node: string) => readonly ResourceSlice[] };
  },
): { readonly devices: Devices; readonly report: NodeReport | undefined } {
  const { name } = node.metadata;
  const read = nodeReportOf(name, watches.nodeReports);
  const report = read?.at === "known" ? read.report : undefined;
  return { devices: devicesOfNode(node, watches.resourceSlicesOfNode.of(name), report), report };
}

export function readReportedNode(
  { readNode }: Pick<Fitness, "readNode">,
  node: Node,
  reports: Pick<Reflector<ConfigMap>, "get">,
): NodeRead {
  return readNode(node, nodeReportOf(node.metadata.name, reports));
}
