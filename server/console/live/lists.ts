/** The rows of the topics hosts, services and models. */
import type { Density } from "../../../fitness/density/density.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { keyOf } from "../../../src/api/names.ts";
import { createGrouping } from "../../../src/cluster/grouping.ts";
import type { ClusterChange } from "../../../src/cluster/informers.ts";
import type { HostRow } from "../../../src/console/rows.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { momentOf } from "../../../src/util/moment.ts";
import type { Clock } from "../../../src/util/ports.ts";
import type { ClusterWatches } from "../../cluster/cluster.ts";
import { hostRow } from "../rows/host.ts";
import { machineFigures } from "../rows/machine.ts";
import { modelRow } from "../rows/model.ts";
import { nodeHostRow } from "../rows/node.ts";
import { serviceRow } from "../rows/service.ts";
import type { RowSource } from "./table.ts";
import { modelKeysOf, prefetchedOn, serviceOfPod, serviceOfReplica } from "./topics.ts";

export type ObjectReads = {
  readonly [K in "nodes" | "hosts" | "replicas" | "pods" | "services" | "models"]: Pick<
    ClusterWatches[K],
    "get" | "list" | "isSynced" | "whenSynced" | "covers"
  >;
};

/** Objects by what they refer to. Keys of services and Models are `namespace/name`. */
export function createLookup() {
  const replicasByHost = createGrouping<InferenceReplica>(({ spec }) => [spec.template.hostName]);
  const replicasByService = createGrouping<InferenceReplica>((replica) => [serviceOfReplica(replica)]);
  const podsByNode = createGrouping<Pod>(({ spec }) => [spec.nodeName ?? ""]);
  const podsByService = createGrouping<Pod>((pod) => [serviceOfPod(pod) ?? ""]);
  const servicesByModel = createGrouping<InferenceService>(modelKeysOf);
  const hostsByModel = createGrouping<Host>(prefetchedOn);
  return {
    replicasOn: replicasByHost.of,
    replicasOf: replicasByService.of,
    podsOn: podsByNode.of,
    podsOf: podsByService.of,
    servicesOf: servicesByModel.of,
    hostsPrefetching: hostsByModel.of,
    /** Must be called for each change from the start of the watches. */
    update: ({ name, key, after, before }: ClusterChange): void => {
      if (name === "replicas")
        for (const one of [replicasByHost, replicasByService]) one.note(key, after, before);
      if (name === "pods") for (const one of [podsByNode, podsByService]) one.note(key, after, before);
      if (name === "services") servicesByModel.note(key, after, before);
      if (name === "hosts") hostsByModel.note(key, after, before);
    },
  };
}

export type Lookup = ReturnType<typeof createLookup>;

export interface LiveState {
  readonly reads: ObjectReads;
  readonly lookup: Lookup;
  readonly density: Density;
  readonly clock: Clock;
}

/** Keys are `host/NAME` and `node/NAME`. */
export function hostSource({ reads, lookup, density, clock }: LiveState): RowSource {
  const rowOf = (key: string): HostRow | undefined => {
    const { kind, name } = machineOfKey(key);
    const figures = machineFigures(density, kind, name, momentOf(clock));
    if (kind === "Node") {
      const node = reads.nodes.get(name);
      return node && nodeHostRow({ node, pods: lookup.podsOn(name), figures });
    }
    const host = reads.hosts.get(name);
    return host && hostRow({ host, replicas: lookup.replicasOn(name), figures });
  };
  return {
    keys: () => [
      ...reads.hosts.list().map(({ metadata }) => `host/${metadata.name}`),
      ...reads.nodes.list().map(({ metadata }) => `node/${metadata.name}`),
    ],
    rowOf,
    rightOf: (key) => ({ kind: machineOfKey(key).kind === "Node" ? "nodes" : "hosts" }),
    mask: { kind: "services", row: (row, isSeen) => withoutForeignClaims(row as HostRow, isSeen) },
  };
}

function machineOfKey(key: string): { readonly kind: "Host" | "Node"; readonly name: string } {
  const name = key.slice(key.indexOf("/") + 1);
  return { kind: key.startsWith("node/") ? "Node" : "Host", name };
}

/** The name of a replica begins with that of its service. */
function withoutForeignClaims(row: HostRow, isSeen: (namespace: string) => boolean): HostRow {
  const claims = row.claims.map((claim) =>
    isSeen(namespaceOfKey(claim.service)) ? claim : { ...claim, service: "", replica: "" },
  );
  return { ...row, claims };
}

/** Figures of a machine that change without a change of its object. */
export function machineSigns({ reads, density, clock }: LiveState): ReadonlyMap<string, string> {
  const now = momentOf(clock);
  const sign = (kind: "Host" | "Node", name: string): string => {
    const { isStale, fits } = machineFigures(density, kind, name, now) ?? {};
    return `${isStale} ${fits}`;
  };
  return new Map([
    ...reads.hosts.list().map(({ metadata: { name } }) => [`host/${name}`, sign("Host", name)] as const),
    ...reads.nodes.list().map(({ metadata: { name } }) => [`node/${name}`, sign("Node", name)] as const),
  ]);
}

/** Keys are `namespace/name`. */
export function serviceSource({ reads, lookup }: LiveState): RowSource {
  return {
    keys: () => reads.services.list().map(({ metadata }) => keyOf(metadata)),
    rowOf: (key) => {
      const service = reads.services.get(key);
      return service && serviceRow({ service, replicas: lookup.replicasOf(key), pods: lookup.podsOf(key) });
    },
    rightOf: (key) => ({ kind: "services", namespace: namespaceOfKey(key) }),
  };
}

/** Keys are `namespace/name`. */
export function modelSource({ reads, lookup }: LiveState): RowSource {
  return {
    keys: () => reads.models.list().map(({ metadata }) => keyOf(metadata)),
    rowOf: (key) => {
      const model = reads.models.get(key);
      if (model === undefined) return undefined;
      const services = lookup.servicesOf(key).map(({ metadata }) => keyOf(metadata));
      const replicas = services.flatMap((service) => lookup.replicasOf(service));
      return modelRow({ model, services, replicas, hosts: lookup.hostsPrefetching(key) });
    },
    rightOf: (key) => ({ kind: "models", namespace: namespaceOfKey(key) }),
  };
}

export function namespaceOfKey(key: string): string {
  return key.slice(0, Math.max(0, key.indexOf("/")));
}
