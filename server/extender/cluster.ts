/** The watches of the extender, and what it knows from them. A node's facts are derived when the node changes, not for each pod. */

import { ANNOTATION_COST, LABEL_NODE_REPORT, LABEL_SERVICE, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { keyOf } from "../../src/api/names.ts";
import { nodeOfReport, nodeReportName, reportInConfigMap } from "../../src/api/node-report.ts";
import {
  BENCHMARKS_NAME,
  type BenchmarkTable,
  NO_BENCHMARKS,
  readBenchmarks,
} from "../../src/capacity/benchmark/table.ts";
import { deviceClassOf } from "../../src/capacity/devices/devices.ts";
import { devicesOfNode } from "../../src/capacity/devices/node.ts";
import { costOfNode } from "../../src/capacity/node-cost.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { CONFIG_MAPS, NODES, RESOURCE_SLICES } from "../../src/kube/kinds.ts";
import type { ConfigMap } from "../../src/kube/objects.ts";
import type { KubeObject } from "../../src/kube/types.ts";
import { type ReflectorOptions, startReflector } from "../../src/kube/watch/reflector.ts";
import type { Node, ResourceSlice } from "../../src/kube/workload-objects.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { type ExtenderNeed, type NodeFacts, needOf } from "./decide.ts";
import type { ExtenderPod } from "./protocol.ts";

export interface ClusterOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface ExtenderCluster {
  /** Undefined for a node that no watch has shown. */
  readonly factsOf: (node: string) => NodeFacts | undefined;
  /** Undefined for a pod of no known service with a known Model. */
  readonly needOf: (pod: ExtenderPod) => ExtenderNeed | undefined;
  /** The kinds whose first list is missing. */
  readonly waitingFor: () => readonly string[];
}

/** Each has 10 to 20 KB. */
const NODES_PER_PAGE = 50;

export function watchCluster(options: ClusterOptions): ExtenderCluster {
  const start = <T extends KubeObject>(rest: Omit<ReflectorOptions<T>, keyof ClusterOptions>) =>
    startReflector<T>({ keep: withoutManagers, ...options, ...rest });
  const facts = new Map<string, NodeFacts>();
  let table: BenchmarkTable = NO_BENCHMARKS;
  const slices = new Map<string, Map<string, ResourceSlice>>();
  const nodes = start<Node>({
    kind: NODES,
    keep: nodeParts,
    pageSize: NODES_PER_PAGE,
    onChange: (name) => setNode(name),
  });
  const reports = start<ConfigMap>({
    kind: CONFIG_MAPS,
    namespace: NAMESPACE_SYSTEM,
    labelSelector: LABEL_NODE_REPORT,
    onChange: (key) => setNode(nodeOfReport(key.slice(NAMESPACE_SYSTEM.length + 1))),
  });
  const setNode = (name: string | undefined): void => {
    const node = name === undefined ? undefined : nodes.get(name);
    if (name === undefined || node === undefined) return void facts.delete(name ?? "");
    const report = reports.get(keyOf({ namespace: NAMESPACE_SYSTEM, name: nodeReportName(name) }));
    facts.set(name, factsOfNode(node, [...(slices.get(name)?.values() ?? [])], report));
  };
  const setSlice = (key: string, slice: ResourceSlice | undefined, node: string | undefined): void => {
    if (node === undefined) return;
    const ofNode = slices.get(node) ?? new Map<string, ResourceSlice>();
    if (slice === undefined) ofNode.delete(key);
    else ofNode.set(key, slice);
    if (ofNode.size === 0) slices.delete(node);
    else slices.set(node, ofNode);
    setNode(node);
  };
  const services = start({ kind: INFERENCE_SERVICES, onChange: () => {} });
  const models = start({ kind: MODELS, onChange: () => {} });
  const required = {
    nodes,
    "node reports": reports,
    services,
    models,
    benchmarks: start<ConfigMap>({
      kind: CONFIG_MAPS,
      namespace: NAMESPACE_SYSTEM,
      fieldSelector: `metadata.name=${BENCHMARKS_NAME}`,
      onChange: (_, map) => {
        table = readBenchmarks(map);
      },
    }),
  };
  start<ResourceSlice>({
    kind: RESOURCE_SLICES,
    isOptional: true,
    onChange: (key, slice, before) => setSlice(key, slice, (slice ?? before)?.spec.nodeName),
  });
  return {
    factsOf: (node) => facts.get(node),
    needOf: (pod) => {
      const { namespace, labels } = pod.metadata;
      const service = services.get(keyOf({ namespace, name: labels?.[LABEL_SERVICE] ?? "" }));
      const model = service && models.get(keyOf({ namespace, name: mainModelOf(service.spec) }));
      return model && needOf(pod, service, model, table);
    },
    waitingFor: () => Object.entries(required).flatMap(([kind, { isSynced }]) => (isSynced() ? [] : [kind])),
  };
}

function factsOfNode(node: Node, slices: readonly ResourceSlice[], map: ConfigMap | undefined): NodeFacts {
  const read = reportInConfigMap(map);
  const report = read?.at === "known" ? read.report : undefined;
  const devices = devicesOfNode(node, slices, report);
  return {
    devices,
    deviceClass: deviceClassOf(devices),
    utilization: report?.gpuUtilization,
    cost: costOfNode(node),
    labels: node.metadata.labels,
  };
}

function withoutManagers<T extends KubeObject>(object: T): T {
  delete object.metadata.managedFields;
  return object;
}

/** Flavors may name any label. A Node has 10 KB of images, addresses and annotations that nothing reads. */
function nodeParts({ metadata, status }: Node): Node {
  const { name, uid, resourceVersion, labels, annotations } = metadata;
  const cost = annotations?.[ANNOTATION_COST];
  return {
    metadata: {
      name,
      uid,
      resourceVersion,
      labels,
      annotations: cost === undefined ? undefined : { [ANNOTATION_COST]: cost },
    },
    status: { capacity: status?.capacity, allocatable: status?.allocatable },
  };
}
