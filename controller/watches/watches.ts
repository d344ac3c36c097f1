/** The controller's watches, with the groupings that its passes need. */
import { DEFAULT_MODEL_ACCELERATOR } from "../../src/api/fields/hardware.ts";
import {
  LABEL_HOST,
  LABEL_SERVICE,
  LABEL_SERVICE_UID,
  LABEL_SLICE_MANAGED_BY,
  NAMESPACE_HOSTS,
  SLICE_MANAGED_BY,
} from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import type { Model } from "../../src/api/model.ts";
import { keyOf } from "../../src/api/names.ts";
import { isPrefetched } from "../../src/capacity/prefetch.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import {
  AUTOSCALERS,
  CONTROLLER_REVISIONS,
  DEPLOYMENTS,
  DISRUPTION_BUDGETS,
  ENDPOINT_SLICES,
  LEASES,
  NETWORK_POLICIES,
  NODES,
  POD_MONITORS,
  PODS,
  SERVICES,
} from "../../src/kube/kinds.ts";
import type { ConfigMap, ControllerRevision, EndpointSlice, Lease, Service } from "../../src/kube/objects.ts";
import type { Kind, KubeObject, Reflector } from "../../src/kube/types.ts";
import { type ReflectorOptions, startReflector } from "../../src/kube/watch/reflector.ts";
import { UNWATCHED } from "../../src/kube/watch/unwatched.ts";
import type {
  Deployment,
  HorizontalPodAutoscaler,
  NetworkPolicy,
  Node,
  Pod,
  PodDisruptionBudget,
  PodMonitor,
} from "../../src/kube/workload-objects.ts";
import { publicSource } from "../../src/models/source/parse.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createGrouping, type Grouping } from "./grouping.ts";
import { NODE_REPORTS } from "./nodes.ts";

/** Handlers of changes; each is quick and only enqueues. */
export interface ChangeHandlers {
  readonly onModel: (namespace: string, name: string) => void;
  /** `namespace/name` of an InferenceService. */
  readonly onService: (key: string) => void;
  /** `namespace/name` of a Model: a service that names it came, went, or wants its weights elsewhere. */
  readonly onWeights: (model: string) => void;
  readonly onReplica: (
    key: string,
    replica: InferenceReplica | undefined,
    before: InferenceReplica | undefined,
  ) => void;
  /** A Model that hosts prefetch, or did. */
  readonly onPrefetched: (model: Model | undefined, before: Model | undefined) => void;
  readonly onHost: (name: string, host: Host | undefined, before: Host | undefined) => void;
  readonly onNode: (node: Node | undefined, before: Node | undefined) => void;
  readonly onNodeReport: (report: ConfigMap | undefined, before: ConfigMap | undefined) => void;
  readonly onHostMember: (host: string) => void;
  readonly onLease: (host: string, lease: Lease | undefined) => void;
  readonly onLeaseTrouble: () => void;
}

export interface Watches {
  readonly models: Reflector<Model>;
  readonly services: Reflector<InferenceService>;
  readonly replicas: Reflector<InferenceReplica>;
  readonly hosts: Reflector<Host>;
  readonly kubeServices: Reflector<Service>;
  readonly slices: Reflector<EndpointSlice>;
  readonly leases: Reflector<Lease>;
  readonly revisions: Reflector<ControllerRevision>;
  readonly deployments: Reflector<Deployment>;
  readonly autoscalers: Reflector<HorizontalPodAutoscaler>;
  readonly disruptionBudgets: Reflector<PodDisruptionBudget>;
  readonly networkPolicies: Reflector<NetworkPolicy>;
  /** Of our Deployments only. */
  readonly pods: Reflector<Pod>;
  /** Empty where the Prometheus operator is not installed; nothing waits for its first list. */
  readonly podMonitors: Reflector<PodMonitor>;
  /** For services with placement.mode Auto. */
  readonly nodes: Reflector<Node>;
  /** What nodes publish of themselves. */
  readonly nodeReports: Reflector<ConfigMap>;
  /** By `namespace/name` of the service. */
  readonly replicasOfService: Grouping<InferenceReplica>;
  readonly slicesOfService: Grouping<EndpointSlice>;
  readonly kubeServicesOfService: Grouping<Service>;
  readonly revisionsOfService: Grouping<ControllerRevision>;
  readonly deploymentsOfService: Grouping<Deployment>;
  readonly autoscalersOfService: Grouping<HorizontalPodAutoscaler>;
  readonly disruptionBudgetsOfService: Grouping<PodDisruptionBudget>;
  readonly networkPoliciesOfService: Grouping<NetworkPolicy>;
  readonly podsOfService: Grouping<Pod>;
  readonly podMonitorsOfService: Grouping<PodMonitor>;
  /** By `namespace/name` of the Model. */
  readonly servicesOfModel: Grouping<InferenceService>;
  /** Models that hosts prefetch, in the one group "all". */
  readonly prefetchedModels: Grouping<Model>;
  /** By source, as a Host shows it. */
  readonly modelsOfSource: Grouping<Model>;
  /** By name of the host. */
  readonly replicasOfHost: Grouping<InferenceReplica>;
  readonly slicesOfHost: Grouping<EndpointSlice>;
}

export interface WatchOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

const NO_PODS = {
  nodes: UNWATCHED,
  nodeReports: UNWATCHED,
  deployments: UNWATCHED,
  autoscalers: UNWATCHED,
  disruptionBudgets: UNWATCHED,
  networkPolicies: UNWATCHED,
  pods: UNWATCHED,
  podMonitors: UNWATCHED,
} as const;

/** Without pods, the kinds that only they need are not watched. */
export interface WatchedPaths {
  readonly hostsOnly: boolean;
}

/** Starts every watch. They are complete once `whenSynced` has resolved. */
export function startWatches(options: WatchOptions & WatchedPaths, on: ChangeHandlers): Watches {
  const groupings = createGroupings();
  const start = <T extends KubeObject>(rest: Omit<ReflectorOptions<T>, keyof WatchOptions>) =>
    startReflector<T>({ ...options, ...rest });
  const owned =
    <T extends KubeObject>(grouping: Grouping<T>) =>
    (key: string, object: T | undefined, before: T | undefined) => {
      for (const service of grouping.note(key, object, before)) on.onService(service);
    };
  const labelled = <T extends KubeObject>(kind: Kind<T>, grouping: Grouping<T>, rest = {}) =>
    start({ ...rest, kind, labelSelector: LABEL_SERVICE_UID, onChange: owned(grouping) });
  const ofPods = (): Pick<Watches, keyof typeof NO_PODS> => ({
    nodes: start({ kind: NODES, onChange: (_, node, before) => on.onNode(node, before) }),
    nodeReports: start({ ...NODE_REPORTS, onChange: (_, report, before) => on.onNodeReport(report, before) }),
    deployments: labelled(DEPLOYMENTS, groupings.deploymentsOfService),
    autoscalers: labelled(AUTOSCALERS, groupings.autoscalersOfService),
    disruptionBudgets: labelled(DISRUPTION_BUDGETS, groupings.disruptionBudgetsOfService),
    networkPolicies: labelled(NETWORK_POLICIES, groupings.networkPoliciesOfService),
    pods: labelled(PODS, groupings.podsOfService),
    podMonitors: labelled(POD_MONITORS, groupings.podMonitorsOfService, { isOptional: true }),
  });
  return {
    ...groupings,
    ...(options.hostsOnly ? NO_PODS : ofPods()),
    models: start({
      kind: MODELS,
      onChange: (key, object, before) => {
        groupings.modelsOfSource.note(key, object, before);
        if (groupings.prefetchedModels.note(key, object, before).length > 0) on.onPrefetched(object, before);
        const { namespace = "default", name } = (object ?? before)?.metadata ?? { name: "" };
        on.onModel(namespace, name);
        if (acceleratorOf(object) !== acceleratorOf(before))
          for (const other of servedWith(key, groupings)) on.onWeights(other);
      },
    }),
    services: start({
      kind: INFERENCE_SERVICES,
      onChange: (key, object, before) => {
        const models = groupings.servicesOfModel.note(key, object, before);
        if (weightsPlaceOf(object) !== weightsPlaceOf(before))
          for (const model of models) on.onWeights(model);
        on.onService(key);
      },
    }),
    replicas: start({
      kind: INFERENCE_REPLICAS,
      onChange: (key, object, before) => {
        for (const service of groupings.replicasOfService.note(key, object, before)) on.onService(service);
        for (const host of groupings.replicasOfHost.note(key, object, before)) on.onHostMember(host);
        on.onReplica(key, object, before);
      },
    }),
    hosts: start({ kind: HOSTS, onChange: on.onHost }),
    kubeServices: labelled(SERVICES, groupings.kubeServicesOfService),
    revisions: labelled(CONTROLLER_REVISIONS, groupings.revisionsOfService),
    slices: start({
      kind: ENDPOINT_SLICES,
      labelSelector: `${LABEL_SLICE_MANAGED_BY}=${SLICE_MANAGED_BY}`,
      onChange: (key, object, before) => {
        owned(groupings.slicesOfService)(key, object, before);
        for (const host of groupings.slicesOfHost.note(key, object, before)) on.onHostMember(host);
      },
    }),
    // While the only host is dead this watch is rightly quiet. The GET before a withdrawal finds renewals that a
    // half-open connection has not shown.
    leases: start({
      kind: LEASES,
      namespace: NAMESPACE_HOSTS,
      onChange: (_, object, before) => on.onLease((object ?? before)?.metadata.name ?? "", object),
      onTrouble: on.onLeaseTrouble,
    }),
  };
}

/** Undefined where there is no Model. */
function acceleratorOf(model: Model | undefined): string | undefined {
  return model && (model.spec.hardware?.accelerator ?? DEFAULT_MODEL_ACCELERATOR);
}

/** Drafts and adapters of the services that run this Model: their pods are its pods. */
function servedWith(model: string, { servicesOfModel }: Groupings): readonly string[] {
  const services = servicesOfModel.of(model).filter((service) => modelsOf(service)[0] === model);
  return services.flatMap(modelsOf);
}

/** What a Model's status depends on: where its weights are wanted, and whether a service serves them or cannot. */
function weightsPlaceOf(service: InferenceService | undefined): string {
  if (service === undefined) return "";
  const { placement, modelCache, skipModelInit } = service.spec;
  const { readyReplicas = 0, reason } = service.status ?? {};
  const isServed = readyReplicas > 0;
  const models = modelsOf(service);
  return JSON.stringify([placement?.on, modelCache, skipModelInit, models, isServed || reason]);
}

/** `namespace/name` of the Models that a service names: its own, the draft and the adapters. */
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

/** Every watch, for a caller that knows that the API server is back. */
export function allWatches(watches: Watches) {
  const { models, services, replicas, hosts, kubeServices, slices, leases, revisions } = watches;
  const { deployments, autoscalers, disruptionBudgets, networkPolicies, pods, nodes, nodeReports } = watches;
  return [
    ...[models, services, replicas, hosts, kubeServices, slices, leases, revisions],
    ...[deployments, autoscalers, disruptionBudgets, networkPolicies, pods, nodes, nodeReports],
  ] as const;
}

type Groupings = Pick<
  Watches,
  { [K in keyof Watches]: Watches[K] extends Grouping<infer _> ? K : never }[keyof Watches]
>;

export function createGroupings(): Groupings {
  return {
    replicasOfService: createGrouping<InferenceReplica>(({ metadata, spec }) => [
      keyOf({ namespace: metadata.namespace, name: spec.template.serviceName }),
    ]),
    slicesOfService: createGrouping<EndpointSlice>(byServiceLabel),
    kubeServicesOfService: createGrouping<Service>(byServiceLabel),
    revisionsOfService: createGrouping<ControllerRevision>(byServiceLabel),
    deploymentsOfService: createGrouping<Deployment>(byServiceLabel),
    autoscalersOfService: createGrouping<HorizontalPodAutoscaler>(byServiceLabel),
    disruptionBudgetsOfService: createGrouping<PodDisruptionBudget>(byServiceLabel),
    networkPoliciesOfService: createGrouping<NetworkPolicy>(byServiceLabel),
    podsOfService: createGrouping<Pod>(byServiceLabel),
    podMonitorsOfService: createGrouping<PodMonitor>(byServiceLabel),
    servicesOfModel: createGrouping<InferenceService>(modelsOf),
    prefetchedModels: createGrouping<Model>((model) => (isPrefetched(model) ? ["all"] : [])),
    modelsOfSource: createGrouping<Model>(({ spec }) => [publicSource(spec.source)]),
    replicasOfHost: createGrouping<InferenceReplica>(({ spec }) => [spec.template.hostName]),
    slicesOfHost: createGrouping<EndpointSlice>(({ metadata }) => {
      const host = metadata.labels?.[LABEL_HOST];
      return host === undefined ? [] : [host];
    }),
  };
}

function byServiceLabel({ metadata }: KubeObject): readonly string[] {
  const name = metadata.labels?.[LABEL_SERVICE];
  return name === undefined ? [] : [keyOf({ namespace: metadata.namespace, name })];
}
