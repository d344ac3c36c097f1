/** The density state as it is now, read once with the rights of the kubeconfig. */

import type { Density } from "../../fitness/density/density.ts";
import { memoryOfPod, memoryOfReplica } from "../../fitness/density/held-memory.ts";
import { machineFromHost, machineFromNode } from "../../fitness/density/place.ts";
import { withReport } from "../../fitness/density/reported.ts";
import { LABEL_SERVICE_UID } from "../../src/api/group.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import { nodeReportName, reportInConfigMap } from "../../src/api/node-report.ts";
import { NO_BENCHMARKS } from "../../src/capacity/benchmark/table.ts";
import { NODES, PODS } from "../../src/kube/kinds.ts";
import { hasPodEnded } from "../../src/kube/workload-objects.ts";
import { readBenchmarkTable } from "./benchmarks.ts";
import type { Cluster } from "./cluster.ts";
import { listAll } from "./find.ts";
import { listReports } from "./nodes.ts";

/** Returns the services. */
export async function fillDensity(density: Density, cluster: Cluster): Promise<readonly InferenceService[]> {
  const [hosts, nodes, replicas, pods, services, models] = await Promise.all([
    listAll(cluster, HOSTS),
    listAll(cluster, NODES),
    listAll(cluster, INFERENCE_REPLICAS),
    listAll(cluster, PODS, { labelSelector: LABEL_SERVICE_UID }),
    listAll(cluster, INFERENCE_SERVICES),
    listAll(cluster, MODELS),
  ]);
  density.setBenchmarks((await readBenchmarkTable(cluster)) ?? NO_BENCHMARKS);
  for (const host of hosts) density.setPlace("Host", host.metadata.name, machineFromHost(host));
  const reports = await listReports(cluster);
  for (const node of nodes) {
    const { name } = node.metadata;
    const report = reportInConfigMap(reports.get(nodeReportName(name)));
    density.setPlace("Node", name, withReport(machineFromNode(node, report), report));
  }
  for (const replica of replicas) {
    const on = { kind: "Host", name: replica.spec.template.hostName } as const;
    density.setHeld(keyOf(replica.metadata), on, memoryOfReplica(replica));
  }
  for (const pod of pods.filter((one) => !hasPodEnded(one))) {
    const { nodeName: name } = pod.spec;
    if (name !== undefined)
      density.setHeld(`pod ${keyOf(pod.metadata)}`, { kind: "Node", name }, memoryOfPod(pod));
  }
  for (const { metadata, spec } of services) density.setService(keyOf(metadata), mainModelOf(spec));
  for (const { metadata, spec } of models) density.setModel(keyOf(metadata), spec.source);
  return services;
}
