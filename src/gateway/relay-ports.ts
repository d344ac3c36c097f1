/** Ports of services on the relays: the controller assigns them in EndpointSlices, and each relay opens them. Pure. */
import { keyOf } from "../api/names.ts";
import type { EndpointSlice } from "../kube/objects.ts";
import { compareText } from "../util/text.ts";

export const FIRST_RELAY_PORT = 20_000;
export const LAST_RELAY_PORT = 29_999;

export function isRelayPort(port: number): boolean {
  return port >= FIRST_RELAY_PORT && port <= LAST_RELAY_PORT;
}

/** Negative if `a` is older. Of two slices with one port, the older one has it. */
export function compareAge({ metadata: a }: EndpointSlice, { metadata: b }: EndpointSlice): number {
  return compareText(a.creationTimestamp ?? "", b.creationTimestamp ?? "") || compareText(keyOf(a), keyOf(b));
}
