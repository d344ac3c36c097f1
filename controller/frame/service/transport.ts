/** What a pass needs to know of sealed transport: defaults, the clients that hosts serve, and the relays. */
import type { Transport } from "../../../src/capacity/transport.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";

export interface SealedTransport {
  /** For services that do not set `endpoint.transport`. */
  readonly byDefault: Transport;
  /** Fingerprints of the certificates of gateways and relays. Empty until the Secret exists. */
  readonly clients: () => readonly string[];
  /** Addresses of the relays that are ready; undefined if the installation has no relay. */
  readonly relays: () => readonly string[] | undefined;
  /** The port of a service on the relays: that of its slice, or a free one, which it reserves. Undefined if none is free. */
  readonly portOf: (uid: string, slice: EndpointSlice | undefined) => number | undefined;
}

/** Every service is reached directly. */
export const NEVER_SEALED: SealedTransport = {
  byDefault: "Direct",
  clients: () => [],
  relays: () => undefined,
  portOf: () => undefined,
};
