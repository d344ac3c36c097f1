/**
 * The kinds that the controller creates for an InferenceService, one row each. Watches, observation, teardown,
 * the first pass of a leader and the check before the finalizer is removed are derived from the rows.
 */
import {
  LABEL_RELAYED_SERVICE,
  LABEL_REPLICA,
  LABEL_REVISION,
  LABEL_SERVICE,
  LABEL_SERVICE_UID,
  LABEL_SLICE_MANAGED_BY,
  LABEL_SLO_RULES,
  SLICE_MANAGED_BY,
  SLICE_MANAGED_BY_CONTROLLER,
} from "../../../src/api/group.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import {
  claimTemplateName,
  groupName,
  revisionName,
  serviceName,
  sliceName,
} from "../../../src/api/names.ts";
import {
  AI_GATEWAY_ROUTES,
  AI_SERVICE_BACKENDS,
  AUTOSCALERS,
  BACKEND_TRAFFIC_POLICIES,
  CONTROLLER_REVISIONS,
  DEPLOYMENTS,
  DISRUPTION_BUDGETS,
  ENDPOINT_SLICES,
  GATEWAY_BACKENDS,
  LEADER_WORKER_SETS,
  NETWORK_POLICIES,
  POD_MONITORS,
  PROMETHEUS_RULES,
  RESOURCE_CLAIM_TEMPLATES,
  SCALED_OBJECTS,
  SERVICE_LEVEL_OBJECTIVES,
  SERVICES,
} from "../../../src/kube/kinds.ts";
import type { Kind, KubeObject } from "../../../src/kube/types.ts";

/** The service that an object belongs to. */
export interface Owner {
  readonly name: string | undefined;
  readonly uid: string | undefined;
}

export interface OwnedRow<T extends KubeObject> {
  readonly kind: Kind<T>;
  /** Label selector of the watch. Absent: all objects with the uid label of a service. */
  readonly selector?: string;
  /** Reads the owner from immutable fields. Absent: by labels and, because clients copy labels, also by name. */
  readonly ownerOf?: (object: T) => Owner;
  /** True if the service may have an object of this name. Absent: the name of the service, or that of a replica or revision. */
  readonly isNameOf?: (service: string, name: string) => boolean;
  /** True if the kind is only for services in pods, so it is neither watched nor created with `--hosts-only`. */
  readonly isForPods?: boolean;
  /** True if the chart gives the right to it only where it is used: without the right, the controller has created none. */
  readonly isRightOptional?: boolean;
  /** True if the CRD belongs to an operator that many clusters lack. */
  readonly isOptional?: boolean;
  /** True if another controller removes objects of the kind after us, so that nothing waits for their end. */
  readonly hasForeignFinalizer?: boolean;
  /** True if the object is useless without the cluster Service, so it is not created without it. */
  readonly needsService?: boolean;
  /** Order of removal. Kinds that run engines are "first". "withFirst" is for kinds that would start engines again. */
  readonly removed: "first" | "withFirst" | "last";
}

/** All kinds, in the order in which they are removed. */
export const OWNED_KINDS = {
  autoscalers: row({ kind: AUTOSCALERS, removed: "withFirst" }),
  scaledObjects: row({ kind: SCALED_OBJECTS, isOptional: true, removed: "withFirst" }),
  deployments: row({ kind: DEPLOYMENTS, isForPods: true, needsService: true, removed: "first" }),
  groups: row({
    kind: LEADER_WORKER_SETS,
    isNameOf: (service, name) => name === groupName(service),
    isForPods: true,
    isOptional: true,
    needsService: true,
    removed: "first",
  }),
  replicas: row({
    kind: INFERENCE_REPLICAS,
    selector: "",
    ownerOf: ({ spec: { template } }) => ({ name: template.serviceName, uid: template.serviceUid }),
    needsService: true,
    removed: "first",
  }),
  slices: row({
    kind: ENDPOINT_SLICES,
    // Kubernetes' own slices copy the labels of their Service, and are deleted with it.
    selector: `${LABEL_SLICE_MANAGED_BY}=${SLICE_MANAGED_BY}`,
    needsService: true,
    removed: "last",
  }),
  relaySlices: row({
    kind: ENDPOINT_SLICES,
    selector: `${LABEL_SLICE_MANAGED_BY}=${SLICE_MANAGED_BY_CONTROLLER}`,
    ownerOf: (slice) => ({ name: slice.metadata.labels?.[LABEL_RELAYED_SERVICE], uid: uidLabelOf(slice) }),
    needsService: true,
    removed: "last",
  }),
  kubeServices: row({ kind: SERVICES, removed: "last" }),
  revisions: row({ kind: CONTROLLER_REVISIONS, removed: "last" }),
  disruptionBudgets: row({ kind: DISRUPTION_BUDGETS, isForPods: true, removed: "last" }),
  networkPolicies: row({ kind: NETWORK_POLICIES, isForPods: true, removed: "last" }),
  claimTemplates: row({
    kind: RESOURCE_CLAIM_TEMPLATES,
    isNameOf: (service, name) => name.startsWith(claimTemplateName(service, "")),
    isForPods: true,
    isOptional: true,
    removed: "last",
  }),
  podMonitors: row({ kind: POD_MONITORS, isForPods: true, isOptional: true, removed: "last" }),
  // Their names are those of the objectives.
  objectives: row({
    kind: SERVICE_LEVEL_OBJECTIVES,
    isNameOf: () => true,
    isOptional: true,
    isRightOptional: true,
    removed: "last",
  }),
  prometheusRules: row({
    kind: PROMETHEUS_RULES,
    selector: `${LABEL_SERVICE_UID},${LABEL_SLO_RULES}`,
    isNameOf: () => true,
    isOptional: true,
    isRightOptional: true,
    removed: "last",
  }),
  aiGatewayRoutes: routeRow(AI_GATEWAY_ROUTES),
  aiServiceBackends: routeRow(AI_SERVICE_BACKENDS),
  trafficPolicies: routeRow(BACKEND_TRAFFIC_POLICIES),
  gatewayBackends: routeRow(GATEWAY_BACKENDS),
};

type Rows = typeof OWNED_KINDS;
export type OwnedKind = keyof Rows;
/** The object type of each kind. */
export type Owned = { readonly [K in OwnedKind]: Rows[K] extends OwnedRow<infer T> ? T : never };

function row<T extends KubeObject>(columns: OwnedRow<T>): OwnedRow<T> {
  return columns;
}

/** An object of the route on a gateway. It goes first, so that no request is sent to a replica that stops. */
function routeRow<T extends KubeObject>(kind: Kind<T>): OwnedRow<T> {
  return row({ kind, isOptional: true, hasForeignFinalizer: true, removed: "withFirst" });
}

/** The row of a kind, without its object type. */
export function ownedRow(what: OwnedKind): OwnedRow<KubeObject> {
  return OWNED_KINDS[what] as OwnedRow<KubeObject>;
}

export const ownedKinds = Object.keys(OWNED_KINDS) as readonly OwnedKind[];

/** One value for each kind. */
export function perOwnedKind<V>(of: (what: OwnedKind) => V): { readonly [K in OwnedKind]: V } {
  return Object.fromEntries(ownedKinds.map((what) => [what, of(what)])) as { [K in OwnedKind]: V };
}

export function ownerOf(what: OwnedKind, object: KubeObject): Owner {
  const name = object.metadata.labels?.[LABEL_SERVICE];
  return ownedRow(what).ownerOf?.(object) ?? { name, uid: uidLabelOf(object) };
}

/** The uid of the service that an object is labeled with. */
export function uidLabelOf({ metadata }: KubeObject): string | undefined {
  return metadata.labels?.[LABEL_SERVICE_UID];
}

/** True if the object has the name that the controller gives it. Labels alone may be copied, for example by `kubectl expose`. */
export function hasNameOf(service: string, what: OwnedKind, { metadata }: KubeObject): boolean {
  const { ownerOf: byField, isNameOf } = ownedRow(what);
  if (byField !== undefined) return true;
  if (isNameOf !== undefined) return isNameOf(service, metadata.name);
  const { [LABEL_REPLICA]: replica, [LABEL_REVISION]: revision } = metadata.labels ?? {};
  if (replica !== undefined) return metadata.name === sliceName(replica);
  if (revision !== undefined) return metadata.name === revisionName(service, revision);
  return metadata.name === serviceName(service);
}
