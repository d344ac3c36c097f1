/** Plans the EndpointSlice that leads the cluster Service of a sealed service to the relays. Pure. */
import {
  LABEL_RELAYED_SERVICE,
  LABEL_SERVICE_NAME,
  LABEL_SERVICE_UID,
  LABEL_SLICE_MANAGED_BY,
  PORT_NAME,
  SLICE_MANAGED_BY_CONTROLLER,
} from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { relaySliceName, serviceName, sliceName } from "../../../src/api/names.ts";
import { MANAGED_BY, ownedObjectRef } from "../../../src/api/owned.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { correctLabels, isSame, withVersionGuards } from "../../frame/owned/corrections.ts";
import type { ServiceStep } from "../../frame/owned/steps.ts";
import type { Sealing, ServiceObserved } from "./observed.ts";

/**
 * The relays are endpoints only while a sealed replica is ready: during a rollout from or to direct replicas, kube-proxy would
 * otherwise send requests to relays that have no replica for them.
 */
export function stepsOfRelaySlice({
  service,
  replicas,
  slices,
  relaySlices,
  sealing: { relays },
}: Pick<ServiceObserved, "service" | "replicas" | "slices" | "relaySlices" | "sealing">): ServiceStep[] {
  const [object, ...others] = relaySlices;
  const unneeded = relays === undefined ? relaySlices : others;
  const steps = unneeded.map(
    (one): ServiceStep => ({ do: "remove", what: "relaySlices", object: one, because: "no relay serves it" }),
  );
  if (relays === undefined) return steps;
  const sealed = new Set(
    replicas
      .filter(({ spec }) => spec.template.transport === "Sealed")
      .map(({ metadata }) => sliceName(metadata.name)),
  );
  const isReady = slices.some(
    ({ metadata, endpoints }) =>
      sealed.has(metadata.name) && endpoints?.some(({ conditions }) => conditions?.ready !== false) === true,
  );
  const desired = desiredRelaySlice(
    service,
    isReady ? relays : { ...relays, addresses: [] },
    relays.addresses[0],
  );
  if (object === undefined)
    return [
      ...steps,
      {
        do: "create",
        what: "relaySlices",
        object: desired,
        because: "clients reach sealed replicas through the relays",
      },
    ];
  if (object.addressType !== desired.addressType)
    return [
      ...steps,
      { do: "remove", what: "relaySlices", object, because: "the relays' address family changed" },
    ];
  const operations = correctRelaySlice(object, desired);
  const because = isReady ? "the relays changed" : "no sealed replica is ready";
  return operations.length === 0
    ? steps
    : [...steps, { do: "patch", what: "relaySlices", object, operations, because }];
}

function desiredRelaySlice(
  service: InferenceService,
  { addresses, port }: NonNullable<Sealing["relays"]>,
  first = "",
): EndpointSlice {
  const isIPv6 = first.includes(":");
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
    addressType: isIPv6 ? "IPv6" : "IPv4",
    endpoints: addresses
      .filter((address) => address.includes(":") === isIPv6)
      .map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: [{ name: PORT_NAME, port, protocol: "TCP" }],
  };
}

function correctRelaySlice(object: EndpointSlice, desired: EndpointSlice) {
  const changes = [...correctLabels(object.metadata, desired.metadata)];
  const now = (object.endpoints ?? []).map(({ addresses }) => addresses[0]);
  if (
    !isSame(
      now,
      (desired.endpoints ?? []).map(({ addresses }) => addresses[0]),
    )
  )
    changes.push({ op: "add", path: "/endpoints", value: desired.endpoints });
  if (object.ports?.[0]?.port !== desired.ports?.[0]?.port)
    changes.push({ op: "add", path: "/ports", value: desired.ports });
  return withVersionGuards(object.metadata, changes);
}
