/** The controller's watches, with the groupings that its passes need. */
import { DEFAULT_MODEL_ACCELERATOR } from "../../src/api/fields/hardware.ts";
import {
  LABEL_HOST,
  LABEL_SERVICE,
  LABEL_SERVICE_UID,
  NAMESPACE_HOSTS,
  NAMESPACE_SYSTEM,
} from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Model } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { BENCHMARKS_NAME } from "../../src/capacity/benchmark/table.ts";
import { isPrefetched } from "../../src/capacity/prefetch.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { CONFIG_MAPS, LEASES, NODES, PODS, RESOURCE_SLICES } from "../../src/kube/kinds.ts";
import type { ConfigMap, EndpointSlice, Lease } from "../../src/kube/objects.ts";
import type { KubeObject, Reflector } from "../../src/kube/types.ts";
import { type ReflectorOptions, startReflector } from "../../src/kube/watch/reflector.ts";
import { UNWATCHED } from "../../src/kube/watch/unwatched.ts";
import { hasPodEnded, type Node, type Pod, type ResourceSlice } from "../../src/kube/workload-objects.ts";
import { publicSource } from "../../src/models/source/parse.ts";
import { isDeepEqual } from "../../src/util/deep-equal.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import {
  type Owned,
  type OwnedKind,
  ownedKinds,
  ownedRow,
  ownerOf,
  perOwnedKind,
} from "../service/owned/kinds.ts";
import { createGrouping, type Grouping } from "./grouping.ts";
import { NODE_REPORTS } from "./nodes.ts";

/** Handlers for changes. Each handler is quick and only enqueues. */
export interface ChangeHandlers {
  readonly onModel: (namespace: string, name: string) => void;
  /** `namespace/name` of an InferenceService. */
  readonly onService: (key: string) => void;
  /** For `namespace/name` of a Model, if a service that names it was added or removed, or needs the weights elsewhere. */
  readonly onWeights: (model: string) => void;
  readonly onReplica: (
    key: string,
    replica: InferenceReplica | undefined,
    before: InferenceReplica | undefined,
  ) => void;
  /** Called instead of `onService`, `onReplica` and `onHostMember` if only the live performance of a replica has changed. */
  readonly onPerformance: (key: string, replica: InferenceReplica) => void;
  /** For a Model that hosts prefetch, or did before the change. */
  readonly onPrefetched: (model: Model | undefined, before: Model | undefined) => void;
  readonly onHost: (name: string, host: Host | undefined, before: Host | undefined) => void;
  readonly onNode: (node: Node | undefined, before: Node | undefined) => void;
  /** A ResourceSlice of this node has changed. */
  readonly onNodeSlice: (node: string) => void;
  readonly onNodeReport: (report: ConfigMap | undefined, before: ConfigMap | undefined) => void;
  /** The ConfigMap with measured speeds has changed. */
  readonly onBenchmarks: () => void;
  /** Something has changed that benchmarks read of a Model, a service or its pods. */
  readonly onBenchmarkFacts: () => void;
  readonly onHostMember: (host: string) => void;
  readonly onRenewal: (host: string) => void;
}

/** Observes Leases, beginning with the first list. */
export interface LeaseObserver {
  /** Returns true for a new renewal. `isEarly` is true before the first subscription. */
  readonly isRenewal: (host: string, lease: Lease, isEarly: boolean) => boolean;
  /** Called when the watch is interrupted. */
  readonly onInterrupted: () => void;
}

type OwnedWatches = { readonly [K in OwnedKind]: Reflector<Owned[K]> };
type OwnedGroupings = { readonly [K in OwnedKind]: Grouping<Owned[K]> };

/** The watches. An optional kind is empty if the cluster lacks it, and nothing waits for its first list. */
export interface Watches extends OwnedWatches, Groupings {
  readonly models: Reflector<Model>;
  readonly services: Reflector<InferenceService>;
  readonly hosts: Reflector<Host>;
  readonly leases: Reflector<Lease>;
  /** Pods of our Deployments only. */
  readonly pods: Reflector<Pod>;
  /** Nodes, for services with placement.mode Auto. */
  readonly nodes: Reflector<Node>;
  /** Devices that drivers of dynamic resource allocation offer. Empty if the cluster lacks the kind. */
  readonly resourceSlices: Reflector<ResourceSlice>;
  /** Reports that nodes publish. */
  readonly nodeReports: Reflector<ConfigMap>;
  /** The ConfigMap with measured speeds. */
  readonly benchmarks: Reflector<ConfigMap>;
}

export interface Groupings {
  /** Objects of a service, by its `namespace/name`. */
  readonly ofService: OwnedGroupings;
  readonly podsOfService: Grouping<Pod>;
  readonly podsOfNode: Grouping<Pod>;
  /** Services by `namespace/name` of a Model that they name. */
  readonly servicesOfModel: Grouping<InferenceService>;
  /** Models that hosts prefetch, in the one group "all". */
  readonly prefetchedModels: Grouping<Model>;
  /** Models by source, in the form that a Host reports. */
  readonly modelsOfSource: Grouping<Model>;
  /** Replicas and slices by name of the host. */
  readonly replicasOfHost: Grouping<InferenceReplica>;
  readonly slicesOfHost: Grouping<EndpointSlice>;
  readonly resourceSlicesOfNode: Grouping<ResourceSlice>;
}

export interface WatchOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** With `hostsOnly`, the kinds that only pods need are not watched. */
export interface WatchedPaths {
  readonly hostsOnly: boolean;
}

export interface StartedWatches {
  readonly watches: Watches;
  /** Subscribes to later changes. Existing objects are in `watches`. */
  readonly subscribe: (handlers: ChangeHandlers) => void;
}

const BENCHMARKS = {
  kind: CONFIG_MAPS,
  namespace: NAMESPACE_SYSTEM,
  fieldSelector: `metadata.name=${BENCHMARKS_NAME}`,
};

type Emit = (notify: (on: ChangeHandlers) => void) => void;

/** Starts every watch. The caches are complete once `whenWatchesSynced` has resolved. */
export function startWatches(
  options: WatchOptions & WatchedPaths,
  leaseObserver: LeaseObserver,
): StartedWatches {
  const subscribers: ChangeHandlers[] = [];
  const emit: Emit = (notify) => subscribers.forEach(notify);
  const groupings = createGroupings();
  const start = <T extends KubeObject>(rest: Omit<ReflectorOptions<T>, keyof WatchOptions>) =>
    startReflector<T>({ ...options, ...rest });
  /** Starts a watch unless nothing runs in pods. */
  const ofPods: typeof start = (rest) => (options.hostsOnly ? UNWATCHED : start(rest));
  const watches: Watches = {
    ...groupings,
    ...startOwned({ start, ofPods }, groupings, emit),
    nodes: ofPods({ kind: NODES, onChange: (_, node, before) => emit((on) => on.onNode(node, before)) }),
    resourceSlices: ofPods({
      kind: RESOURCE_SLICES,
      isOptional: true,
      onChange: (key, slice, before) => {
        const nodes = groupings.resourceSlicesOfNode.note(key, slice, before);
        emit((on) => nodes.forEach(on.onNodeSlice));
      },
    }),
    nodeReports: ofPods({
      ...NODE_REPORTS,
      onChange: (_, report, before) => emit((on) => on.onNodeReport(report, before)),
    }),
    benchmarks: start({ ...BENCHMARKS, onChange: () => emit((on) => on.onBenchmarks()) }),
    pods: ofPods({
      kind: PODS,
      labelSelector: LABEL_SERVICE_UID,
      onChange: (key, pod, before) => {
        groupings.podsOfNode.note(key, pod, before);
        const services = groupings.podsOfService.note(key, pod, before);
        emit((on) => services.forEach(on.onService));
        if (busyNodeOf(pod) !== busyNodeOf(before)) emit((on) => on.onBenchmarkFacts());
      },
    }),
    models: start({
      kind: MODELS,
      onChange: (key, object, before) => {
        groupings.modelsOfSource.note(key, object, before);
        const isPrefetch = groupings.prefetchedModels.note(key, object, before).length > 0;
        if (isPrefetch) emit((on) => on.onPrefetched(object, before));
        const { namespace = "default", name } = (object ?? before)?.metadata ?? { name: "" };
        emit((on) => on.onModel(namespace, name));
        if (!isDeepEqual(measuredOf(object), measuredOf(before))) emit((on) => on.onBenchmarkFacts());
        if (acceleratorOf(object) !== acceleratorOf(before))
          emit((on) => servedWith(key, groupings).forEach(on.onWeights));
      },
    }),
    services: start({
      kind: INFERENCE_SERVICES,
      onChange: (key, object, before) => {
        const models = groupings.servicesOfModel.note(key, object, before);
        if (weightsPlaceOf(object) !== weightsPlaceOf(before)) emit((on) => models.forEach(on.onWeights));
        emit((on) => on.onService(key));
        if (specOf(object) !== specOf(before)) emit((on) => on.onBenchmarkFacts());
      },
    }),
    hosts: start({ kind: HOSTS, onChange: (...change) => emit((on) => on.onHost(...change)) }),
    // The watch is quiet if the only host is dead. The GET before a withdrawal finds renewals that a half-open connection missed.
    leases: start({
      kind: LEASES,
      namespace: NAMESPACE_HOSTS,
      onChange: (_, lease) => {
        const host = lease?.metadata.name ?? "";
        if (lease !== undefined && leaseObserver.isRenewal(host, lease, subscribers.length === 0))
          emit((on) => on.onRenewal(host));
      },
      onFailure: leaseObserver.onInterrupted,
    }),
  };
  return { watches, subscribe: (handlers) => void subscribers.push(handlers) };
}

type Further<T> = (key: string, object: T | undefined, before: T | undefined) => boolean;
type Start = <T extends KubeObject>(rest: Omit<ReflectorOptions<T>, keyof WatchOptions>) => Reflector<T>;

function startOwned(
  { start, ofPods }: { readonly start: Start; readonly ofPods: Start },
  { ofService, replicasOfHost, slicesOfHost }: Groupings,
  emit: Emit,
): OwnedWatches {
  const onHosts = (hosts: readonly string[]) => emit((on) => hosts.forEach(on.onHostMember));
  /** Effects of a change. Returns false if its service needs no pass. */
  const further: { readonly [K in OwnedKind]?: Further<Owned[K]> } = {
    replicas: (key, replica, before) => {
      const hosts = replicasOfHost.note(key, replica, before);
      if (replica !== undefined && isOnlyPerformance(replica, before)) {
        emit((on) => on.onPerformance(key, replica));
        return false;
      }
      onHosts(hosts);
      emit((on) => on.onReplica(key, replica, before));
      return true;
    },
    slices: (key, slice, before) => {
      onHosts(slicesOfHost.note(key, slice, before));
      return true;
    },
  };
  return perOwnedKind((what) => {
    const { kind, selector = LABEL_SERVICE_UID, isForPods, isOptional } = ownedRow(what);
    const grouping = ofService[what] as Grouping<KubeObject>;
    const also = further[what] as Further<KubeObject> | undefined;
    const startKind = isForPods === true ? ofPods : start;
    return startKind({
      kind,
      isOptional,
      labelSelector: selector === "" ? undefined : selector,
      onChange: (key, object, before) => {
        const services = grouping.note(key, object, before);
        if (also?.(key, object, before) !== false) emit((on) => services.forEach(on.onService));
      },
    });
  }) as OwnedWatches;
}

/** True if only the live performance has changed, which serving engines report all the time and passes do not read. */
export function isOnlyPerformance(
  after: InferenceReplica | undefined,
  before: InferenceReplica | undefined,
): boolean {
  if (isDeepEqual(after?.status?.performance, before?.status?.performance)) return false;
  return isDeepEqual(withoutPerformance(after), withoutPerformance(before));
}

function withoutPerformance(replica: InferenceReplica | undefined) {
  const { metadata, spec, status } = replica ?? {};
  const { resourceVersion: _version, managedFields: _fields, ...identity } = metadata ?? {};
  return { identity, spec, status: { ...status, performance: undefined } };
}

/** Changes with the spec, with a deletion, and with a new object of the same name. */
function specOf(object: KubeObject | undefined): string | undefined {
  return object && `${object.metadata.uid} ${object.metadata.generation}`;
}

/** The parts of a Model that benchmarks read. */
function measuredOf(model: Model | undefined) {
  if (model === undefined) return undefined;
  const { benchmarks: _, conditions: __, ...status } = model.status ?? {};
  return { spec: specOf(model), status };
}

/** Node whose devices the pod uses. */
function busyNodeOf(pod: Pod | undefined): string | undefined {
  return pod === undefined || hasPodEnded(pod) ? undefined : pod.spec.nodeName;
}

/** Undefined if there is no Model. */
function acceleratorOf(model: Model | undefined): string | undefined {
  return model && (model.spec.hardware?.accelerator ?? DEFAULT_MODEL_ACCELERATOR);
}

/** Drafts and adapters of the services that run this Model, whose weights the same pods need. */
function servedWith(model: string, { servicesOfModel }: Groupings): readonly string[] {
  const services = servicesOfModel.of(model).filter((service) => modelsOf(service)[0] === model);
  return services.flatMap(modelsOf);
}

/** The parts of a service on which the status of its Models depends: where it needs the weights, and whether it serves them. */
function weightsPlaceOf(service: InferenceService | undefined): string {
  if (service === undefined) return "";
  const { placement, modelCache, skipModelInit } = service.spec;
  const { readyReplicas = 0, reason } = service.status ?? {};
  const isServed = readyReplicas > 0;
  const models = modelsOf(service);
  return JSON.stringify([placement?.on, modelCache, skipModelInit, models, isServed || reason]);
}

/** `namespace/name` of the Models that a service names: its main Model, the draft and the adapters. */
function modelsOf({ metadata, spec }: InferenceService): readonly string[] {
  const draft = spec.speculativeDecoding?.draftModelRef;
  const adapters = (spec.loraAdapters ?? []).map(({ modelRef }) => modelRef);
  const names = new Set([spec.modelRef, ...(draft === undefined ? [] : [draft]), ...adapters]);
  return [...names].map((name) => keyOf({ namespace: metadata.namespace, name }));
}

/** Resolves when every cache is complete; also waits for CRDs that are not installed yet. */
export async function whenWatchesSynced(watches: Watches): Promise<void> {
  await Promise.all(allWatches(watches).map((reflector) => reflector.whenSynced()));
}

/** All watches, for a caller that detects that the API server is available again. */
export function allWatches(watches: Watches) {
  const { models, services, hosts, leases, pods, nodes, nodeReports, benchmarks } = watches;
  return [
    models,
    services,
    hosts,
    leases,
    pods,
    nodes,
    nodeReports,
    benchmarks,
    ...Object.values(requiredOwned(watches)),
  ];
}

/** The owned kinds that every cluster has. */
export function requiredOwned(watches: OwnedWatches): Readonly<Record<string, Reflector<KubeObject>>> {
  const required = ownedKinds.filter((what) => ownedRow(what).isOptional !== true);
  return Object.fromEntries(required.map((what) => [what, watches[what]]));
}

export function createGroupings(): Groupings {
  return {
    ofService: perOwnedKind((what) =>
      createGrouping((object) => groupOf(object, ownerOf(what, object).name)),
    ) as OwnedGroupings,
    podsOfService: createGrouping<Pod>((pod) => groupOf(pod, pod.metadata.labels?.[LABEL_SERVICE])),
    podsOfNode: createGrouping<Pod>(({ spec: { nodeName } }) => (nodeName === undefined ? [] : [nodeName])),
    servicesOfModel: createGrouping<InferenceService>(modelsOf),
    prefetchedModels: createGrouping<Model>((model) => (isPrefetched(model) ? ["all"] : [])),
    modelsOfSource: createGrouping<Model>(({ spec }) => [publicSource(spec.source)]),
    replicasOfHost: createGrouping<InferenceReplica>(({ spec }) => [spec.template.hostName]),
    slicesOfHost: createGrouping<EndpointSlice>(({ metadata }) => {
      const host = metadata.labels?.[LABEL_HOST];
      return host === undefined ? [] : [host];
    }),
    resourceSlicesOfNode: createGrouping<ResourceSlice>(({ spec: { nodeName } }) =>
      nodeName === undefined ? [] : [nodeName],
    ),
  };
}

function groupOf({ metadata }: KubeObject, service: string | undefined): readonly string[] {
  return service === undefined ? [] : [keyOf({ namespace: metadata.namespace, name: service })];
}
