/** The agent's part of a replica's EndpointSlice: what it writes, and the state that it reads back. Pure. */

import { ANNOTATION_ADDRESSES, PORT_NAME } from "../../src/api/group.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { isAddressWithin } from "../../src/util/ip-address.ts";
import { addressProblem } from "../config/address.ts";
import type { SliceState } from "../replicas/observed.ts";
import type { EndpointAddress } from "../replicas/ports.ts";

/** Announces the endpoint: it receives new connections. */
export function readyBody(slice: EndpointSlice, { address, port }: EndpointAddress): EndpointSlice {
  return {
    ...identityOf(slice),
    endpoints: [{ addresses: [address], conditions: { ready: true, serving: true, terminating: false } }],
    ports: [{ name: PORT_NAME, port, protocol: "TCP" }],
  };
}

/** Withdraws the endpoint. With serving true, kube-proxy would still send new connections if no other endpoint is ready. */
export function withdrawnBody(slice: EndpointSlice): EndpointSlice {
  const conditions = { ready: false, serving: false, terminating: true };
  return {
    ...identityOf(slice),
    endpoints: (slice.endpoints ?? []).map(({ addresses }) => ({ addresses, conditions })),
    ports: slice.ports ?? [],
  };
}

export function stateOfSlice(slice: EndpointSlice, desired: EndpointAddress | undefined): SliceState {
  const endpoint = slice.endpoints?.[0];
  if (endpoint === undefined) return "unwritten";
  // Every reader of slices treats an absent value as ready.
  if (endpoint.conditions?.ready === false) return "withdrawn";
  const isAsDesired =
    desired !== undefined &&
    slice.endpoints?.length === 1 &&
    endpoint.addresses.length === 1 &&
    endpoint.addresses[0] === desired.address &&
    slice.ports?.length === 1 &&
    slice.ports[0]?.port === desired.port &&
    slice.ports[0]?.name === PORT_NAME;
  return isAsDesired ? "ready" : "stale";
}

/** Why the slice must not hold the address; undefined if it may. */
export function addressRefusal(slice: EndpointSlice, address: string): string | undefined {
  const why = addressProblem(address);
  if (why !== undefined) return `${address} is ${why}, which an EndpointSlice does not allow`;
  const family = address.includes(":") ? "IPv6" : "IPv4";
  if (slice.addressType !== family)
    return `${address} is ${family}, the EndpointSlice is for ${slice.addressType}`;
  const allowed = slice.metadata.annotations?.[ANNOTATION_ADDRESSES];
  if (allowed === undefined) return undefined;
  return isAddressWithin(address, allowed.split(","))
    ? undefined
    : `${address} is not among the addresses that the Host allows (${allowed === "" ? "none" : allowed})`;
}

function identityOf(slice: EndpointSlice): Pick<EndpointSlice, "metadata" | "addressType"> {
  const { name, namespace, uid } = slice.metadata;
  return {
    metadata: { name, namespace, uid },
    addressType: slice.addressType,
  };
}
