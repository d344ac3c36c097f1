/** Reads from the watches what is known about nodes besides their size: measured speed, load and cost. */

import { parseQuantity } from "../../src/api/fields/quantity.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import type { NodeReport } from "../../src/api/node-report.ts";
import { speedsByClass, subjectOf } from "../../src/capacity/benchmark/subject.ts";
import { deviceClassOf } from "../../src/capacity/devices/devices.ts";
import { costOfNode } from "../../src/capacity/devices/node.ts";
import { benchmarksIn } from "../../src/cluster/benchmarks.ts";
import { hardwareOf } from "../../src/cluster/nodes.ts";
import { hasPodEnded, type Node, type Pod } from "../../src/kube/workload-objects.ts";
import type { Watches } from "../frame/watches/watches.ts";
import type { NodeFigures } from "./nodes.ts";
import { requestsOf } from "./pods.ts";
import type { PodsResolved } from "./workload/resolve.ts";

type FigureWatches = Pick<
  Watches,
  "nodes" | "nodeReports" | "resourceSlicesOfNode" | "podsOfNode" | "benchmarks"
>;

/** Figures of a node for pods of this service, by the name of the node. */
export function nodeFiguresFor(
  watches: FigureWatches,
  {
    service,
    model,
    resolution,
  }: {
    readonly service: InferenceService;
    readonly model: Model;
    readonly resolution: PodsResolved;
  },
): (node: string) => NodeFigures {
  const { runtime, gpuCount: gpusPerPod, workload } = resolution;
  const [engine] = workload.deployment.spec.template.spec.containers;
  const speeds = speedsByClass(
    benchmarksIn(watches.benchmarks),
    subjectOf(model, service, { runtime, gpusPerPod, image: engine?.image }),
  );
  const devices = new Set(
    requestsOf(workload.deployment.spec.template)
      .map(([name]) => name)
      .filter((name) => name.includes("/")),
  );
  return (name) => {
    const node = watches.nodes.get(name);
    if (node === undefined) return {};
    const { devices: hardware, report } = hardwareOf(node, watches);
    const deviceClass = deviceClassOf(hardware);
    return {
      measured: deviceClass === undefined ? undefined : speeds[deviceClass],
      utilization:
        devices.size === 0
          ? memoryInUse(report)
          : // The extender of kube-scheduler scores by the report too.
            (report?.gpuUtilization ?? shareOf(node, devices, watches.podsOfNode.of(name))),
      cost: costOfNode(node),
    };
  };
}

/** Share of these devices that pods of services use. Only the scheduler knows about other pods. */
function shareOf({ status }: Node, devices: ReadonlySet<string>, pods: readonly Pod[]): number | undefined {
  let offered = 0;
  for (const name of devices) offered += parseQuantity(status?.allocatable?.[name] ?? "") ?? 0;
  if (offered === 0) return undefined;
  let taken = 0;
  for (const pod of pods)
    if (!hasPodEnded(pod))
      for (const [name, quantity] of requestsOf(pod))
        if (devices.has(name)) taken += parseQuantity(quantity) ?? 0;
  return taken / offered;
}

/** By the report of the node, whose free memory is updated in steps. */
function memoryInUse(report: NodeReport | undefined): number | undefined {
  const { totalBytes, availableBytes } = report?.memory ?? {};
  return totalBytes === undefined || availableBytes === undefined
    ? undefined
    : 1 - availableBytes / totalBytes;
}
