/** The controller's watches, with the groupings that its passes need. */

import { DEMAND_SELECTOR, readDemandLease } from "../../../src/api/demand-lease.ts";
import { DEFAULT_MODEL_ACCELERATOR } from "../../../src/api/fields/hardware.ts";
import { LABEL_HOST, LABEL_SERVICE_UID } from "../../../src/api/group.ts";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { allModelsOf } from "../../../src/api/inference-service/roles.ts";
import type { Model } from "../../../src/api/model.ts";
import { keyOf } from "../../../src/api/names.ts";
import { isPrefetched } from "../../../src/capacity/prefetch.ts";
import { createGrouping, type Grouping } from "../../../src/cluster/grouping.ts";
import { INFORMERS } from "../../../src/cluster/informers.ts";
import { createPublicNames, type PublicNames, serviceNamesOf } from "../../../src/gateway/public-names.ts";
import { LEASES } from "../../../src/kube/kinds.ts";
import type { ConfigMap, EndpointSlice, Lease } from "../../../src/kube/objects.ts";
import type { KubeObject, Reflector } from "../../../src/kube/types.ts";
import { UNWATCHED } from "../../../src/kube/watch/reflector.ts";
import { publicSource } from "../../../src/models/source/parse.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { type Owned, type OwnedKind, ownedKinds, ownedRow, ownerOf, perOwnedKind } from "../owned/kinds.ts";
import { type BackendWatches, startBackendWatches } from "./backend-watches.ts";
import type {
  ChangeHandlers,
  Emit,
  LeaseObserver,
  StartWatch,
  WatchedPaths,
  WatchOptions,
} from "./contract.ts";
import { groupKindOf } from "./group-kind.ts";
import {
  isInstalled,
  OBJECTIVE_OBJECTS,
  type ObjectiveWatches,
  startObjectiveWatches,
} from "./objective-watches.ts";
import {
  createPodGroupings,
  groupOf,
  type PodGroupings,
  type PodWatches,
  startPodWatches,
} from "./pod-watches.ts";
import {
  areRoutesInstalled,
  hasReadyReplicas,
  ROUTE_OBJECTS,
  type RouteKinds,
  type RouteWatches,
  relistRoutes,
  routeKindsOf,
  startRouteWatches,
} from "./route-watches.ts";
import { specVersionOf } from "./spec-version.ts";

type OwnedWatches = { readonly [K in OwnedKind]: Reflector<Owned[K]> };
type OwnedGroupings = { readonly [K in OwnedKind]: Grouping<Owned[K]> };

/** The watches. An optional kind is empty if the cluster lacks it, and nothing waits for its first list. */
export interface Watches
  extends OwnedWatches,
    PodWatches,
    BackendWatches,
    RouteWatches,
    ObjectiveWatches,
    Groupings {
  /** Unknown until the objects of routes are in the cache. */
  readonly routeKinds: () => RouteKinds;
  readonly models: Reflector<Model>;
  readonly services: Reflector<InferenceService>;
  readonly hosts: Reflector<Host>;
  readonly leases: Reflector<Lease>;
  /** Leases in which gateways report demand. */
  readonly demandLeases: Reflector<Lease>;
  /** The ConfigMap with measured speeds. */
  readonly benchmarks: Reflector<ConfigMap>;
}

export interface Groupings extends PodGroupings {
  /** Objects of a service, by its `namespace/name`. */
  readonly ofService: OwnedGroupings;
  /** Services by `namespace/name` of a Model that they name. */
  readonly servicesOfModel: Grouping<InferenceService>;
  /** Model names of the services on gateways. */
  readonly publicNames: PublicNames;
  /** Services by name of the BackendRuntime that they name. */
  readonly servicesOfBackend: Grouping<InferenceService>;
  /** Models that hosts prefetch, in the one group "all". */
  readonly prefetchedModels: Grouping<Model>;
  /** Models by source, in the form that a Host reports. */
  readonly modelsOfSource: Grouping<Model>;
  /** Replicas and slices by name of the host. */
  readonly replicasOfHost: Grouping<InferenceReplica>;
  readonly slicesOfHost: Grouping<EndpointSlice>;
}

export interface StartedWatches {
  readonly watches: Watches;
  /** Subscribes to later changes. Existing objects are in `watches`. */
  readonly subscribe: (handlers: ChangeHandlers) => void;
}

/** Starts every watch. The caches are complete once `whenWatchesSynced` has resolved. */
export function startWatches(
  options: WatchOptions & WatchedPaths,
  leaseObserver: LeaseObserver,
): StartedWatches {
  const subscribers: ChangeHandlers[] = [];
  const emit: Emit = (notify) => subscribers.forEach(notify);
  const groupings = createGroupings();
  const start: StartWatch = (rest) => options.startReflector({ ...options, ...rest });
  /** Starts a watch unless nothing runs in pods. */
  const ofPods: StartWatch = (rest) => (options.hostsOnly ? UNWATCHED : start(rest));
  const ofPodsOnly = startPodWatches(ofPods, groupings, emit, () => {
    if (groupKindOf(ofPodsOnly).at === "installed") watches.groups.relist();
  });
  const ofRoutes = startRouteWatches(start, emit, () => relistRoutes(watches));
  const ofObjectives = startObjectiveWatches(start, emit, (what) => watches[what].relist());
  const watches: Watches = {
    ...groupings,
    ...startOwned({ start, ofPods, ...ofPodsOnly, ...ofRoutes, ...ofObjectives }, groupings, emit),
    ...ofObjectives,
    ...ofPodsOnly,
    ...ofRoutes,
    routeKinds: () => routeKindsOf(watches),
    benchmarks: start({ ...INFORMERS.benchmarks, onChange: () => emit((on) => on.onBenchmarks()) }),
    models: start({
      ...INFORMERS.models,
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
    ...startBackendWatches(start, groupings, emit),
    services: start({
      ...INFORMERS.services,
      onChange: (key, object, before) => {
        const backends = groupings.servicesOfBackend.note(key, object, before);
        if (backends.length > 0 && !isDeepEqual(backendUseOf(object), backendUseOf(before)))
          emit((on) => backends.forEach(on.onBackendMember));
        const models = groupings.servicesOfModel.note(key, object, before);
        if (weightsPlaceOf(object) !== weightsPlaceOf(before)) emit((on) => models.forEach(on.onWeights));
        const renamed = notePublicNames(groupings.publicNames, object, before);
        const sharers =
          hasReadyReplicas(object) === hasReadyReplicas(before) ? [] : sharersOf(groupings.publicNames, key);
        emit((on) => new Set([key, ...renamed, ...sharers]).forEach(on.onService));
        if (specVersionOf(object) !== specVersionOf(before)) emit((on) => on.onBenchmarkFacts());
      },
    }),
    hosts: start({ ...INFORMERS.hosts, onChange: (...change) => emit((on) => on.onHost(...change)) }),
    // The watch is quiet if the only host is dead. The GET before a withdrawal finds renewals that a half-open connection missed.
    leases: start({
      ...INFORMERS.leases,
      onChange: (_, lease) => {
        const host = lease?.metadata.name ?? "";
        if (lease !== undefined && leaseObserver.isRenewal(host, lease, subscribers.length === 0))
          emit((on) => on.onRenewal(host));
      },
      onFailure: leaseObserver.onInterrupted,
    }),
    demandLeases: start({
      kind: LEASES,
      labelSelector: DEMAND_SELECTOR,
      onChange: (_, lease) => {
        const { service, mark } = (lease && readDemandLease(lease)) ?? {};
        if (service !== undefined && mark !== undefined) emit((on) => on.onDemand(service, mark));
      },
    }),
  };
  return { watches, subscribe: (handlers) => void subscribers.push(handlers) };
}

/** Returns the services that get or lose a model name, or that hear of another owner. */
function notePublicNames(
  table: PublicNames,
  object: InferenceService | undefined,
  before: InferenceService | undefined,
): readonly string[] {
  const [names, old] = [object, before].map((service) => service && serviceNamesOf(service));
  if (isDeepEqual(names, old)) return [];
  return names === undefined ? table.remove(old?.key ?? "") : table.set(names);
}

/** The services that share a name with it: the route of the first to claim it leaves out those without replicas. */
function sharersOf({ namesOf, sharesOf }: PublicNames, key: string): readonly string[] {
  return namesOf(key).flatMap((name) => sharesOf(name).map((share) => share.key));
}

type Further<T> = (key: string, object: T | undefined, before: T | undefined) => boolean;

interface OwnedStart extends Pick<Watches, "groupKind" | "routeKind" | "objectiveKinds"> {
  readonly start: StartWatch;
  readonly ofPods: StartWatch;
}

function startOwned(
  { start, ofPods, groupKind, routeKind, objectiveKinds }: OwnedStart,
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
  const installed: { readonly [K in OwnedKind]?: () => boolean } = {
    groups: () => groupKindOf({ groupKind }).at === "installed",
    ...Object.fromEntries(ROUTE_OBJECTS.map((what) => [what, () => areRoutesInstalled(routeKind)])),
    ...Object.fromEntries(
      OBJECTIVE_OBJECTS.map((what) => [what, () => isInstalled({ objectiveKinds }, what)]),
    ),
  };
  return perOwnedKind((what) => {
    const { kind, selector = LABEL_SERVICE_UID, isForPods, isOptional } = ownedRow(what);
    const grouping = ofService[what] as Grouping<KubeObject>;
    const also = further[what] as Further<KubeObject> | undefined;
    const startKind = isForPods === true ? ofPods : start;
    const reflector = startKind({
      kind,
      isOptional,
      isInstalled: installed[what],
      labelSelector: selector === "" ? undefined : selector,
      onChange: (key, object, before) => {
        const services = grouping.note(key, object, before);
        if (also?.(key, object, before) !== false) emit((on) => services.forEach(on.onService));
      },
    });
    // Services may wait for the kind.
    if (isOptional === true)
      reflector.whenSynced().then(
        () => emit((on) => on.onKind()),
        () => {},
      );
    return reflector;
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

/** The parts of a Model that benchmarks read. */
function measuredOf(model: Model | undefined) {
  if (model === undefined) return undefined;
  const { benchmarks: _, conditions: __, ...status } = model.status ?? {};
  return { spec: specVersionOf(model), status };
}

/** Undefined if there is no Model. */
function acceleratorOf(model: Model | undefined): string | undefined {
  return model && (model.spec.hardware?.accelerator ?? DEFAULT_MODEL_ACCELERATOR);
}

/** Drafts, projectors and adapters of the services that run this Model, whose weights the same pods need. */
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

/** `namespace/name` of the Models that a service names, its main Model first. */
function modelsOf({ metadata, spec }: InferenceService): readonly string[] {
  return allModelsOf(spec).map((name) => keyOf({ namespace: metadata.namespace, name }));
}

/** The parts of a service that the status of its BackendRuntime counts. */
function backendUseOf(service: InferenceService | undefined) {
  const { metadata, spec, status } = service ?? {};
  return [spec?.backendRuntime, status?.backendRuntime, metadata?.deletionTimestamp];
}

/** Resolves when every cache is complete; also waits for CRDs that are not installed yet. */
export async function whenWatchesSynced(watches: Watches): Promise<void> {
  const synced = requiredWatches(watches).map((reflector) => reflector.whenSynced());
  await Promise.all([
    ...synced,
    // Otherwise pods with claims for devices would be replaced by pods without them.
    watches.whenDeviceClassesKnown(),
    watches.whenGroupKindKnown(),
    watches.whenBackendsKnown(),
  ]);
  // Without its groups, a service would seem to have none.
  if (groupKindOf(watches).at === "installed") await watches.groups.whenSynced();
}

/** All watches, for a caller that detects that the API server is available again. */
export function allWatches(watches: Watches) {
  return [...requiredWatches(watches), watches.backendRuntimes];
}

function requiredWatches(watches: Watches) {
  const { models, services, hosts, leases, demandLeases, pods, nodes, nodeReports, benchmarks } = watches;
  return [
    models,
    services,
    hosts,
    leases,
    demandLeases,
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
    ...createPodGroupings(),
    servicesOfModel: createGrouping<InferenceService>(modelsOf),
    publicNames: createPublicNames(),
    servicesOfBackend: createGrouping<InferenceService>(({ spec: { backendRuntime } }) =>
      backendRuntime === undefined ? [] : [backendRuntime.name],
    ),
    prefetchedModels: createGrouping<Model>((model) => (isPrefetched(model) ? ["all"] : [])),
    modelsOfSource: createGrouping<Model>(({ spec }) => [publicSource(spec.source)]),
    replicasOfHost: createGrouping<InferenceReplica>(({ spec }) => [spec.template.hostName]),
    slicesOfHost: createGrouping<EndpointSlice>(({ metadata }) => {
      const host = metadata.labels?.[LABEL_HOST];
      return host === undefined ? [] : [host];
    }),
  };
}
