/** Plans the EndpointSlice that leads the cluster Service of a sealed service to the relays. Pure. */
import {
  LABEL_RELAYED_SERVICE,
  LABEL_SERVICE_NAME,
  LABEL_SERVICE_UID,
  LABEL_SLICE_MANAGED_BY,
  PORT_NAME,
  SLICE_MANAGED_BY_CONTROLLER,
} from "../../../src/api/group.ts";
import { relaySliceName, serviceName, sliceName } from "../../../src/api/names.ts";
import { MANAGED_BY, ownedObjectRef } from "../../../src/api/owned.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { correctLabels, isSame, withVersionGuards } from "../../frame/owned/corrections.ts";
import type { ServiceStep } from "../../frame/owned/steps.ts";
import { removals } from "../../frame/owned/teardown.ts";
import type { Sealing, ServiceObserved } from "./observed.ts";

/**
 * The relays are endpoints only while a sealed replica is ready: during a rollout from or to direct replicas, kube-proxy would
 * otherwise send requests to relays that have no replica for them.
 */
export function stepsOfRelaySlice(observed: RelayObserved): ServiceStep[] {
  const {
    relaySlices,
    sealing: { relays },
  } = observed;
  const [object, ...others] = relaySlices;
  const unneeded = relays === undefined ? relaySlices : others;
  const steps = removals("relaySlices", unneeded, "no relay serves it");
  if (relays === undefined) return steps;
  const isReady = hasReadySealed(observed);
  const desired = desiredRelaySlice(observed, isReady ? relays : { ...relays, addresses: [] });
  if (object === undefined) {
    const because = "clients reach sealed replicas through the relays";
    return [...steps, { do: "create", what: "relaySlices", object: desired, because }];
  }
  if (object.addressType !== desired.addressType)
    return [...steps, ...removals("relaySlices", [object], "the relays' address family changed")];
  const operations = correctRelaySlice(object, desired);
  if (operations.length === 0) return steps;
  const because = isReady ? "the relays changed" : "no sealed replica is ready";
  return [...steps, { do: "patch", what: "relaySlices", object, operations, because }];
}

type RelayObserved = Pick<
  ServiceObserved,
  "service" | "replicas" | "slices" | "relaySlices" | "kubeServices" | "sealing"
>;

function hasReadySealed({ replicas, slices }: RelayObserved): boolean {
  const sealed = replicas.filter(({ spec }) => spec.template.transport === "Sealed");
  const names = new Set(sealed.map(({ metadata }) => sliceName(metadata.name)));
  return slices.some(
    ({ metadata, endpoints }) =>
      names.has(metadata.name) && endpoints?.some(({ conditions }) => conditions?.ready !== false) === true,
  );
}

function desiredRelaySlice(
  observed: RelayObserved,
  { addresses, port }: NonNullable<Sealing["relays"]>,
): EndpointSlice {
  const { service } = observed;
  const addressType = familyOf(observed, addresses);
  return {
    metadata: {
      ...ownedObjectRef(service, relaySliceName(service.metadata.name)),
      labels: {
        ...MANAGED_BY,
        [LABEL_RELAYED_SERVICE]: service.metadata.name,
        [LABEL_SERVICE_UID]: service.metadata.uid ?? "",
        [LABEL_SERVICE_NAME]: serviceName(service.metadata.name),
        [LABEL_SLICE_MANAGED_BY]: SLICE_MANAGED_BY_CONTROLLER,
      },
    },
    addressType,
    endpoints: addresses
      .filter((address) => address.includes(":") === (addressType === "IPv6"))
      .map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: [{ name: PORT_NAME, port, protocol: "TCP" }],
  };
}

/** The family of the cluster Service, if relays have it. Without relays the slice keeps its own. */
function familyOf(
  { kubeServices, relaySlices }: RelayObserved,
  addresses: readonly string[],
): "IPv4" | "IPv6" {
  const kept = relaySlices[0]?.addressType === "IPv6" ? "IPv6" : "IPv4";
  if (addresses.length === 0) return kept;
  const families = new Set(addresses.map((address) => (address.includes(":") ? "IPv6" : "IPv4")));
  const wanted = kubeServices[0]?.spec?.ipFamilies?.[0] === "IPv6" ? "IPv6" : "IPv4";
  if (families.has(wanted)) return wanted;
  return wanted === "IPv6" ? "IPv4" : "IPv6";
}

function correctRelaySlice(object: EndpointSlice, desired: EndpointSlice) {
  const changes = [...correctLabels(object.metadata, desired.metadata)];
  const now = (object.endpoints ?? []).map(({ addresses }) => addresses[0]);
  const wanted = (desired.endpoints ?? []).map(({ addresses }) => addresses[0]);
  if (!isSame(now, wanted)) changes.push({ op: "add", path: "/endpoints", value: desired.endpoints });
  if (object.ports?.[0]?.port !== desired.ports?.[0]?.port)
    changes.push({ op: "add", path: "/ports", value: desired.ports });
  return withVersionGuards(object.metadata, changes);
}
