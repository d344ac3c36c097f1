/** The watches of the cluster that keep the density state current. */

import type { Density } from "../../fitness/density/density.ts";
import { notePod, noteReplica } from "../../fitness/density/held-memory.ts";
import { machineFromHost, machineFromNode } from "../../fitness/density/place.ts";
import {
  LABEL_NODE_REPORT,
  LABEL_SERVICE_UID,
  NAMESPACE_HOSTS,
  NAMESPACE_SYSTEM,
} from "../../src/api/group.ts";
import { mainModelOf } from "../../src/api/inference-service/roles.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { nodeOfReport, nodeReportName, reportInConfigMap } from "../../src/api/node-report.ts";
import { BENCHMARKS_NAME, readBenchmarks } from "../../src/capacity/benchmark/table.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { CONFIG_MAPS, LEASES, NODES, PODS, RESOURCE_SLICES } from "../../src/kube/kinds.ts";
import type { ConfigMap, Lease } from "../../src/kube/objects.ts";
import type { ReviewOwnAccess } from "../../src/kube/review/self-reviews.ts";
import type { KubeObject, ListOptions, Reflector } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { type ReflectorOptions, startReflector } from "../../src/kube/watch/reflector.ts";
import type { Node, ResourceSlice } from "../../src/kube/workload-objects.ts";
import { backoffMs } from "../../src/util/backoff.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { ClusterChange } from "./changes.ts";
import type { Reach } from "./reach.ts";

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

interface Visible<T extends KubeObject>
  extends Pick<Reflector<T>, "get" | "list" | "isSynced" | "whenSynced"> {
  /**
   * False if the objects of the namespace, or without one those of the whole watch, may not be listed: it is unknown which there
   * are. True while the rights are not known yet.
   */
  readonly covers: (namespace?: string) => boolean;
}

/** The rights of the credentials, and the namespace that is watched without the right to all. */
interface OwnRights {
  readonly review: ReviewOwnAccess;
  readonly namespace: string;
}

const RETRY = { firstMs: 250, capMs: 30_000 };

/** Without `own`, the whole watch is started, whatever the rights. */
function startVisible<T extends KubeObject>(
  options: ReflectorOptions<T>,
  own: OwnRights | undefined,
): Visible<T> {
  if (own === undefined) return { ...startReflector(options), covers: () => true };
  let reflector: Reflector<T> | undefined;
  let covers = (_?: string): boolean => true;
  const started = selectionOf(options, own).then((selection) => {
    if (selection === undefined) covers = () => false;
    else if (selection.namespace !== options.namespace) covers = (one) => one === selection.namespace;
    if (selection !== undefined) reflector = startReflector({ ...options, ...selection });
  });
  return {
    get: (key) => reflector?.get(key),
    list: () => reflector?.list() ?? [],
    isSynced: () => reflector?.isSynced() ?? false,
    whenSynced: () => started.then(() => reflector?.whenSynced()),
    covers: (namespace) => covers(namespace),
  };
}

/** What may be listed; undefined for nothing. Asks until the API server answers, or `signal` is aborted. */
async function selectionOf<T extends KubeObject>(
  { connection, kind, namespace, clock, signal, onFailure }: ReflectorOptions<T>,
  own: OwnRights,
): Promise<Pick<ListOptions, "namespace"> | undefined> {
  const places = kind.namespaced && namespace === undefined ? [undefined, own.namespace] : [namespace];
  for (let failures = 1; ; failures += 1) {
    const access = { group: kind.group, resource: kind.plural };
    const ask = (verb: string, place?: string) =>
      own.review(connection, "own", { ...access, verb, namespace: place });
    const verdicts = await Promise.all(
      places.map((place) => Promise.all(["list", "watch"].map((verb) => ask(verb, place)))),
    );
    const failed = verdicts.flat().find((verdict) => verdict.at === "failed");
    if (failed === undefined || signal.aborted) {
      const index = verdicts.findIndex((both) => both.every(({ at }) => at === "allowed"));
      return index < 0 ? undefined : { namespace: places[index] };
    }
    onFailure?.(failed.failure);
    await waitMs(clock, backoffMs(failures, RETRY), signal);
  }
}
