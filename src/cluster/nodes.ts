/** Reads nodes for fitness, from their Node objects and the reports that they publish. */

import { NAMESPACE_SYSTEM } from "../api/group.ts";
import { keyOf } from "../api/names.ts";
import {
  type NodeReport,
  type NodeReportRead,
  nodeReportName,
  reportInConfigMap,
} from "../api/node-report.ts";
import type { Devices } from "../capacity/devices/devices.ts";
import { devicesOfNode } from "../capacity/devices/node.ts";
import type { Fitness, NodeRead } from "../capacity/fitness.ts";
import type { ConfigMap } from "../kube/objects.ts";
import type { Reflector } from "../kube/types.ts";
import type { Node, ResourceSlice } from "../kube/workload-objects.ts";

/** Reports by key: those of the watch, or of one list. */
export type NodeReports = Pick<Reflector<ConfigMap>, "get">;

/** Parsed reports, because each pass reads all of them. The watch delivers a new object with each change. */
const known = new WeakMap<ConfigMap, NodeReportRead | undefined>();

/** Undefined if the node has published no report. */
export function nodeReportOf(node: string, reports: NodeReports): NodeReportRead | undefined {
  const map = reports.get(keyOf({ namespace: NAMESPACE_SYSTEM, name: nodeReportName(node) }));
  if (map !== undefined && !known.has(map)) known.set(map, reportInConfigMap(map));
  return map && known.get(map);
}

/** The hardware of a node, and its report if that can be read. */
export function hardwareOf(
  node: Node,
  watches: {
    readonly nodeReports: NodeReports;
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
  reports: NodeReports,
): NodeRead {
  return readNode(node, nodeReportOf(node.metadata.name, reports));
}
