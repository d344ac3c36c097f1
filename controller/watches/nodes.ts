/** Nodes of the cluster as fitness sees them: their Nodes, and what they publish of themselves. */

import { LABEL_NODE_REPORT, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { keyOf } from "../../src/api/names.ts";
import { type NodeReportRead, nodeReportName, reportInConfigMap } from "../../src/api/node-report.ts";
import type { Fitness, NodeRead } from "../../src/capacity/fitness.ts";
import { CONFIG_MAPS } from "../../src/kube/kinds.ts";
import type { ConfigMap } from "../../src/kube/objects.ts";
import type { Reflector } from "../../src/kube/types.ts";
import type { Node } from "../../src/kube/workload-objects.ts";

/** Of a watch for their reports. */
export const NODE_REPORTS = {
  kind: CONFIG_MAPS,
  namespace: NAMESPACE_SYSTEM,
  labelSelector: LABEL_NODE_REPORT,
} as const;

/** Every service of every pass asks; the watch brings a new object with each change. */
const known = new WeakMap<ConfigMap, NodeReportRead | undefined>();

export function readReportedNode(
  { readNode }: Pick<Fitness, "readNode">,
  node: Node,
  reports: Pick<Reflector<ConfigMap>, "get">,
): NodeRead {
  const name = nodeReportName(node.metadata.name);
  const map = reports.get(keyOf({ namespace: NAMESPACE_SYSTEM, name }));
  if (map !== undefined && !known.has(map)) known.set(map, reportInConfigMap(map));
  return readNode(node, map && known.get(map));
}
