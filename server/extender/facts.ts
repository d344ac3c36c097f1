/** What the server's watches show of the nodes and of the service of a pod. A node's facts are derived once per change of the node, not for each pod. */
import { LABEL_SERVICE, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { keyOf } from "../../src/api/names.ts";
import { nodeOfReport, nodeReportName, reportInConfigMap } from "../../src/api/node-report.ts";
import { BENCHMARKS_NAME, NO_BENCHMARKS, readBenchmarks } from "../../src/capacity/benchmark/table.ts";
import { deviceClassOf } from "../../src/capacity/devices/devices.ts";
import { costOfNode, devicesOfNode } from "../../src/capacity/devices/node.ts";
import type { ResourceSlice } from "../../src/kube/workload-objects.ts";
import type { ClusterChanges } from "../cluster/changes.ts";
import type { ClusterWatches } from "../cluster/cluster.ts";
import { type ExtenderNeed, type NodeFacts, needOf } from "./decide.ts";
import type { ExtenderPod } from "./protocol.ts";

export interface ExtenderCluster {
  /** Undefined for a node that no watch has shown. */
  readonly factsOf: (node: string) => NodeFacts | undefined;
  /** Undefined for a pod of no known service with a known Model. */
  readonly needOf: (pod: ExtenderPod) => ExtenderNeed | undefined;
}

export function createExtenderCluster(
  watches: Pick<ClusterWatches, "nodes" | "reports" | "services" | "models">,
  changes: Pick<ClusterChanges, "listen">,
): ExtenderCluster {
  const facts = new Map<string, NodeFacts>();
  const slices = new Map<string, Map<string, ResourceSlice>>();
  let table = NO_BENCHMARKS;
  const setSlice = (
    key: string,
    after: ResourceSlice | undefined,
    before: ResourceSlice | undefined,
  ): void => {
    const node = (after ?? before)?.spec.nodeName;
    if (node === undefined) return;
    const ofNode = slices.get(node) ?? new Map<string, ResourceSlice>();
    if (after === undefined) ofNode.delete(key);
    else ofNode.set(key, after);
    if (ofNode.size === 0) slices.delete(node);
    else slices.set(node, ofNode);
    facts.delete(node);
  };
  changes.listen((change) => {
    if (change.kind === "Node") facts.delete(change.key);
    if (change.kind === "ResourceSlice") setSlice(change.key, change.after, change.before);
    if (change.kind !== "ConfigMap") return;
    const name = change.key.slice(NAMESPACE_SYSTEM.length + 1);
    if (name === BENCHMARKS_NAME) table = readBenchmarks(change.after);
    else facts.delete(nodeOfReport(name) ?? "");
  });
  const derive = (name: string): NodeFacts | undefined => {
    const node = watches.nodes.get(name);
    if (node === undefined) return undefined;
    const read = reportInConfigMap(watches.reports.get(`${NAMESPACE_SYSTEM}/${nodeReportName(name)}`));
    const report = read?.at === "known" ? read.report : undefined;
    const devices = devicesOfNode(node, [...(slices.get(name)?.values() ?? [])], report);
    const utilization = report?.gpuUtilization;
    const { labels } = node.metadata;
    const found = {
      devices,
      deviceClass: deviceClassOf(devices),
      utilization,
      cost: costOfNode(node),
      labels,
    };
    facts.set(name, found);
    return found;
  };
  return {
    factsOf: (name) => facts.get(name) ?? derive(name),
    needOf: (pod) => {
      const { namespace, labels } = pod.metadata;
      const service = watches.services.get(keyOf({ namespace, name: labels?.[LABEL_SERVICE] ?? "" }));
      const model = service && watches.models.get(keyOf({ namespace, name: mainModelOf(service.spec) }));
      return model && needOf(pod, service, model, table);
    },
  };
}
