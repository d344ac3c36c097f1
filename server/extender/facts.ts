/** What the server's watches show of the nodes and of the service of a pod. A node's facts are derived once per change of the node, not for each pod. */
import { LABEL_SERVICE } from "../../src/api/group.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { keyOf } from "../../src/api/names.ts";
import { nodeOfReport } from "../../src/api/node-report.ts";
import { deviceClassOf } from "../../src/capacity/devices/devices.ts";
import { costOfNode } from "../../src/capacity/devices/node.ts";
import { benchmarksIn } from "../../src/cluster/benchmarks.ts";
import { createGrouping } from "../../src/cluster/grouping.ts";
import { hardwareOf } from "../../src/cluster/nodes.ts";
import type { ResourceSlice } from "../../src/kube/workload-objects.ts";
import type { WatchedCluster } from "../cluster/cluster.ts";
import { type ExtenderNeed, type NodeFacts, needOf } from "./decide.ts";
import type { ExtenderPod } from "./protocol.ts";

export interface ExtenderCluster {
  /** Undefined for a node that no watch has shown. */
  readonly factsOf: (node: string) => NodeFacts | undefined;
  /** Undefined for a pod of no known service with a known Model. */
  readonly needOf: (pod: ExtenderPod) => ExtenderNeed | undefined;
}

export function createExtenderCluster({
  watches,
  listen,
}: Pick<WatchedCluster, "watches" | "listen">): ExtenderCluster {
  const derived = new Map<string, NodeFacts>();
  const slicesOfNode = createGrouping<ResourceSlice>(({ spec: { nodeName } }) =>
    nodeName === undefined ? [] : [nodeName],
  );
  listen(({ name, key, after, before }) => {
    if (name === "nodes") derived.delete(key);
    if (name === "reports") derived.delete(nodeOfReport((after ?? before)?.metadata.name ?? "") ?? "");
    if (name === "slices") for (const node of slicesOfNode.note(key, after, before)) derived.delete(node);
  });
  const derive = (name: string): NodeFacts | undefined => {
    const node = watches.nodes.get(name);
    if (node === undefined) return undefined;
    const found = { nodeReports: watches.reports, resourceSlicesOfNode: slicesOfNode };
    const { devices, report } = hardwareOf(node, found);
    const facts = {
      devices,
      deviceClass: deviceClassOf(devices),
      utilization: report?.gpuUtilization,
      cost: costOfNode(node),
      labels: node.metadata.labels,
    };
    derived.set(name, facts);
    return facts;
  };
  return {
    factsOf: (name) => derived.get(name) ?? derive(name),
    needOf: (pod) => {
      const { namespace, labels } = pod.metadata;
      const service = watches.services.get(keyOf({ namespace, name: labels?.[LABEL_SERVICE] ?? "" }));
      const model = service && watches.models.get(keyOf({ namespace, name: mainModelOf(service.spec) }));
      return model && needOf(pod, service, model, benchmarksIn(watches.benchmarks));
    },
  };
}
