/** The density state as it is now, read once with the rights of the kubeconfig. */

import type { Density } from "../../fitness/density/density.ts";
import { notePod, noteReplica } from "../../fitness/density/held-memory.ts";
import { machineFromHost, machineFromNode } from "../../fitness/density/place.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { keyOf } from "../../src/api/names.ts";
import { NO_BENCHMARKS } from "../../src/capacity/benchmark/table.ts";
import { INFORMERS } from "../../src/cluster/informers.ts";
import { nodeReportOf } from "../../src/cluster/nodes.ts";
import type { Node } from "../../src/kube/workload-objects.ts";
import { readBenchmarkTable } from "./benchmarks.ts";
import type { Cluster } from "./cluster.ts";
import { listReports } from "./nodes.ts";
import { listIfVisible, listVisible, missingOf, UNSEEN_CLAIMS, type Visible } from "./visible.ts";

export interface SeenCluster {
  readonly services: readonly InferenceService[];
  /** True if the reader may not list all kinds of machines. */
  readonly areMachinesHidden: boolean;
  /** What is not shown, and why. */
  readonly missing: readonly string[];
}

/** Fills in what the reader may see: all namespaces, or one. */
export async function fillDensity(
  density: Density,
  cluster: Cluster,
  namespace?: string,
): Promise<SeenCluster> {
  const [hosts, nodes, replicas, pods, services, models] = await Promise.all([
    listVisible(cluster, INFORMERS.hosts.kind),
    listVisible(cluster, INFORMERS.nodes.kind),
    listIfVisible(cluster, INFORMERS.replicas.kind, namespace),
    listIfVisible(cluster, INFORMERS.pods.kind, namespace, INFORMERS.pods.labelSelector),
    listVisible(cluster, INFORMERS.services.kind, namespace),
    listIfVisible(cluster, INFORMERS.models.kind, namespace),
  ]);
  density.setBenchmarks((await readBenchmarkTable(cluster)) ?? NO_BENCHMARKS);
  for (const host of shown(hosts)) density.setPlace("Host", host.metadata.name, machineFromHost(host));
  await placeNodes(density, cluster, shown(nodes));
  for (const replica of shown(replicas)) noteReplica(density, keyOf(replica.metadata), replica);
  for (const pod of shown(pods)) notePod(density, keyOf(pod.metadata), pod);
  for (const { metadata, spec } of shown(services)) density.setService(keyOf(metadata), mainModelOf(spec));
  for (const { metadata, spec } of shown(models)) density.setModel(keyOf(metadata), spec.source);
  const isPartial = [namespace, replicas.missing, pods.missing].some((one) => one !== undefined);
  return {
    services: shown(services),
    areMachinesHidden: hosts.items === undefined || nodes.items === undefined,
    missing: [
      ...missingOf(hosts, nodes, replicas, pods, services, models),
      ...(isPartial && density.sites().length > 0 ? [UNSEEN_CLAIMS] : []),
    ],
  };
}

async function placeNodes(density: Density, cluster: Cluster, nodes: readonly Node[]): Promise<void> {
  const reports = await listReports(cluster);
  for (const node of nodes) {
    const { name } = node.metadata;
    density.setPlace("Node", name, machineFromNode(node, nodeReportOf(name, reports)));
  }
}

function shown<T>({ items = [] }: Visible<T>): readonly T[] {
  return items;
}
