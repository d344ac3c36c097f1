/** Writes the report of a node to its ConfigMap, which is owned by the Node and deleted with it. */
import { LABEL_NODE_REPORT, MANAGER_NODE } from "../api/group.ts";
import { NODE_REPORT_KEY, nodeReportName } from "../api/node-report.ts";
import { CONFIG_MAPS, NODES } from "./kinds.ts";
import type { ApiResult, KubeClient } from "./types.ts";

export interface ReportPlace {
  readonly client: KubeClient;
  readonly node: string;
  readonly namespace: string;
}

/** Recreates a deleted ConfigMap. Reads the owner each time, because a Node that was recreated has another uid. */
export async function publishReport(
  { client, node, namespace }: ReportPlace,
  text: string,
): Promise<ApiResult<unknown>> {
  const found = await client.get(NODES, { name: node });
  if (!found.ok) return found;
  const { uid = "" } = found.value.metadata;
  return client.apply(
    CONFIG_MAPS,
    {
      metadata: {
        name: nodeReportName(node),
        namespace,
        labels: { [LABEL_NODE_REPORT]: "true" },
        ownerReferences: [{ apiVersion: "v1", kind: "Node", name: node, uid }],
      },
      data: { [NODE_REPORT_KEY]: text },
    },
    { manager: MANAGER_NODE },
  );
}
