/**
 * The demand Lease of a service with spec.idle. Gateways set its renewTime when requests arrive. The controller counts every
 * change of it as demand and never compares it with a clock, so clocks of gateways may differ.
 */
import { API_VERSION, GROUP, LABEL_SERVICE } from "./group.ts";
import { INFERENCE_SERVICES } from "./kinds.ts";
import type { ObjectMeta } from "./metadata.ts";
import { keyOf } from "./names.ts";
import { MANAGED_BY } from "./owned.ts";

const LABEL_DEMAND = `${GROUP}/demand`;
/** Selects all demand Leases. */
export const DEMAND_SELECTOR = `${LABEL_DEMAND}=true`;

/** Minimum interval between two renewals of one Lease by one gateway, unless a request waits for an idle service. */
export const DEMAND_RENEW_MS = 1_000;

const NAME_SUFFIX = "-demand";

/** The fields of a Lease that demand uses. */
export interface DemandLease {
  readonly apiVersion: "coordination.k8s.io/v1";
  readonly kind: "Lease";
  readonly metadata: ObjectMeta;
  readonly spec: { readonly holderIdentity: string; readonly renewTime: string };
}

/** Report of a gateway: its own name, and the time of the newest request. */
export interface ReportedDemand {
  readonly gateway: string;
  readonly requestAtMs: number;
}

/** The service that requests arrive for. */
interface ServiceRef {
  readonly metadata: Pick<ObjectMeta, "name" | "namespace" | "uid">;
}

/** Name of the Lease, in the namespace of the service. */
export function demandLeaseName(service: string): string {
  return `${service}${NAME_SUFFIX}`;
}

/** The Lease to create if a renewal finds none. It is deleted with the service. */
export function renderDemandLease({ metadata }: ServiceRef, demand: ReportedDemand): DemandLease {
  const { name, namespace = "default", uid } = metadata;
  const owner = { apiVersion: API_VERSION, kind: INFERENCE_SERVICES.kind, name };
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: {
      name: demandLeaseName(name),
      namespace,
      labels: { ...MANAGED_BY, [LABEL_DEMAND]: "true", [LABEL_SERVICE]: name },
      ...(uid !== undefined && { ownerReferences: [{ ...owner, uid }] }),
    },
    spec: specOf(demand),
  };
}

/** JSON patch of a renewal. Gateways overwrite each other, because each renewal is demand. */
export function demandRenewal(demand: ReportedDemand) {
  return Object.entries(specOf(demand)).map(([field, value]) => ({
    op: "add" as const,
    path: `/spec/${field}`,
    value,
  }));
}

/** `namespace/name` of the service, and the mark that changes with each renewal; undefined for another Lease. */
export function readDemandLease({
  metadata,
  spec,
}: {
  readonly metadata: ObjectMeta;
  readonly spec?: { readonly renewTime?: string };
}): { readonly service: string; readonly mark: string | undefined } | undefined {
  const { name, namespace, labels } = metadata;
  if (labels?.[LABEL_DEMAND] !== "true" || !name.endsWith(NAME_SUFFIX)) return undefined;
  return { service: keyOf({ namespace, name: name.slice(0, -NAME_SUFFIX.length) }), mark: spec?.renewTime };
}

/** MicroTime, as the API server stores it. */
function specOf({ gateway, requestAtMs }: ReportedDemand): DemandLease["spec"] {
  return { holderIdentity: gateway, renewTime: new Date(requestAtMs).toISOString().replace("Z", "000Z") };
}
