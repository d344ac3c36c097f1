/**
 * Addresses at which the replicas of a service answer, on hosts and in pods. Gateways get them instead of the name of the Service:
 * behind the name, kube-proxy would choose, and requests would stall for a minute when a machine dies. Pure.
 */
import { ANNOTATION_FINGERPRINTS, LABEL_SERVICE, PORT_NAME } from "../../../src/api/group.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import { compareText } from "../../../src/util/text.ts";
import type { OwnedObjects } from "../../frame/owned/observe.ts";

export interface RouteEndpoint {
  readonly address: string;
  readonly port: number;
}

/** The ready endpoints, sorted, so that equal sets are equal objects. */
export function readyEndpoints(
  service: string,
  { slices, relaySlices, pods }: Pick<OwnedObjects, "slices" | "relaySlices" | "pods">,
): readonly RouteEndpoint[] {
  // Gateways of others cannot open sealed replicas: the relays do.
  const isOpen = ({ metadata }: EndpointSlice) =>
    metadata.annotations?.[ANNOTATION_FINGERPRINTS] === undefined;
  const open = [...slices.filter(isOpen), ...relaySlices];
  const found = [...open.flatMap(ofSlice), ...pods.flatMap((pod) => ofPod(service, pod))];
  return found.sort((a, b) => compareText(a.address, b.address) || a.port - b.port);
}

function ofSlice(slice: EndpointSlice): RouteEndpoint[] {
  const port = slice.ports?.[0]?.port;
  if (port === undefined || isBeingDeleted(slice)) return [];
  const ready = (slice.endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false);
  return ready.flatMap(({ addresses: [address] }) => (address === undefined ? [] : [{ address, port }]));
}

/** Workers of a group lack the label by which the Service selects its pods. */
function ofPod(service: string, pod: Pod): RouteEndpoint[] {
  const address = pod.status?.podIP;
  const ports = pod.spec.containers.flatMap((container) => container.ports ?? []);
  const port = ports.find(({ name }) => name === PORT_NAME)?.containerPort;
  const isSelected = pod.metadata.labels?.[LABEL_SERVICE] === service;
  const isReady = pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True");
  if (!isSelected || isReady !== true || isBeingDeleted(pod)) return [];
  return address === undefined || port === undefined ? [] : [{ address, port }];
}
