/** The watches of the cluster that keep the density state current. */

import type { Density } from "../fitness/density/density.ts";
import { notePod, noteReplica } from "../fitness/density/held-memory.ts";
import { machineFromHost, machineFromNode } from "../fitness/density/place.ts";
import { LABEL_NODE_REPORT, LABEL_SERVICE_UID, NAMESPACE_HOSTS, NAMESPACE_SYSTEM } from "../src/api/group.ts";
import { mainModelOf } from "../src/api/inference-service/roles.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../src/api/kinds.ts";
import { nodeOfReport, nodeReportName, reportInConfigMap } from "../src/api/node-report.ts";
import { BENCHMARKS_NAME, readBenchmarks } from "../src/capacity/benchmark/table.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { CONFIG_MAPS, LEASES, NODES, PODS, RESOURCE_SLICES } from "../src/kube/kinds.ts";
import type { ConfigMap, Lease } from "../src/kube/objects.ts";
import type { KubeObject } from "../src/kube/types.ts";
import type { ReflectorOptions } from "../src/kube/watch/reflector.ts";
import type { Node, ResourceSlice } from "../src/kube/workload-objects.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import type { ClusterChange } from "./changes.ts";
import type { Reach } from "./reach.ts";
import { type OwnRights, startVisible } from "./visible.ts";

export interface ClusterOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly reach?: Pick<Reach, "answered" | "failed">;
  /** Also watches the ResourceSlices of nodes, if the cluster has the kind. */
  readonly withSlices?: boolean | undefined;
  /** Watches only what these rights allow; without it, everything. */
  readonly own?: OwnRights | undefined;
}

export type ClusterWatches = ReturnType<typeof watchCluster>;

/** Starts the watches. `onChange` is called for each change, after the density state has it. */
export function watchCluster(
  { reach, own, withSlices = false, ...options }: ClusterOptions,
  density: Density,
  onChange: (change: ClusterChange) => void = () => {},
) {
  const { clock } = options;
  const start = <T extends KubeObject>(rest: Omit<ReflectorOptions<T>, keyof ClusterOptions>) =>
    startVisible<T>(
      {
        ...options,
        ...rest,
        keep: withoutManagers,
        onAnswer: reach?.answered,
        onFailure: reach?.failed,
        onChange: (key, after, before) => {
          rest.onChange(key, after, before);
          onChange({ kind: rest.kind.kind, key, after, before } as ClusterChange);
        },
      },
      own,
    );
  if (withSlices) start<ResourceSlice>({ kind: RESOURCE_SLICES, isOptional: true, onChange: () => {} });
  const nodes = start<Node>({ kind: NODES, onChange: (name) => setNode(name) });
  const reports = start<ConfigMap>({
    kind: CONFIG_MAPS,
    namespace: NAMESPACE_SYSTEM,
    labelSelector: LABEL_NODE_REPORT,
    onChange: (key) => setNode(nodeOfReport(key.slice(NAMESPACE_SYSTEM.length + 1))),
  });
  const setNode = (name: string | undefined): void => {
    if (name === undefined) return;
    const node = nodes.get(name);
    const report = reportInConfigMap(reports.get(`${NAMESPACE_SYSTEM}/${nodeReportName(name)}`));
    density.setPlace("Node", name, node && machineFromNode(node, report));
  };
  return {
    nodes,
    reports,
    benchmarks: start<ConfigMap>({
      kind: CONFIG_MAPS,
      namespace: NAMESPACE_SYSTEM,
      fieldSelector: `metadata.name=${BENCHMARKS_NAME}`,
      onChange: (_, map) => density.setBenchmarks(readBenchmarks(map)),
    }),
    hosts: start({
      kind: HOSTS,
      onChange: (name, host) => density.setPlace("Host", name, host && machineFromHost(host)),
    }),
    leases: start({
      kind: LEASES,
      namespace: NAMESPACE_HOSTS,
      onChange: (_, lease) => noteRenewal(density, lease, clock),
      // Renewals between two lists were missed.
      onListed: () => density.restartLeaseTimeouts(clock.monotonicMs()),
    }),
    replicas: start({
      kind: INFERENCE_REPLICAS,
      onChange: (key, replica) => noteReplica(density, key, replica),
    }),
    pods: start({
      kind: PODS,
      labelSelector: LABEL_SERVICE_UID,
      onChange: (key, pod) => notePod(density, key, pod),
    }),
    services: start({
      kind: INFERENCE_SERVICES,
      onChange: (key, service) => density.setService(key, service && mainModelOf(service.spec)),
    }),
    models: start({ kind: MODELS, onChange: (key, model) => density.setModel(key, model?.spec.source) }),
  };
}

/** They are half of a Node, and nothing reads them. */
function withoutManagers<T extends KubeObject>(object: T): T {
  delete object.metadata.managedFields;
  return object;
}

function noteRenewal(density: Density, lease: Lease | undefined, clock: Clock): void {
  // Without a holder no agent has renewed the Lease: the host is only registered.
  if ((lease?.spec?.holderIdentity ?? "") === "" || lease === undefined) return;
  const renewedAtMs = Date.parse(lease.spec?.renewTime ?? "");
  const moment = { wallMs: clock.nowMs(), monotonicMs: clock.monotonicMs() };
  density.leaseRenewed(lease.metadata.name, Number.isNaN(renewedAtMs) ? undefined : renewedAtMs, moment);
}
