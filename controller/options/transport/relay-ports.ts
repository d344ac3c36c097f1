/** Ports of services on the relays. A port belongs to one service as long as its slice exists. */
import { LABEL_SERVICE_UID } from "../../../src/api/group.ts";
import {
  compareAge,
  FIRST_RELAY_PORT,
  isRelayPort,
  LAST_RELAY_PORT,
} from "../../../src/gateway/relay-ports.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { hash } from "../../../src/util/hash.ts";

const PORTS = LAST_RELAY_PORT - FIRST_RELAY_PORT + 1;
/** The watch shows a slice within this time. */
const RESERVED_MS = 60_000;

export interface RelayPorts {
  readonly portOf: (uid: string, slice: EndpointSlice | undefined) => number | undefined;
}

/** `slices`: those of all services. */
export function createRelayPorts(
  slices: () => readonly EndpointSlice[],
  monotonicMs: () => number,
): RelayPorts {
  const reserved = new Map<number, { readonly uid: string; readonly atMs: number }>();
  return {
    portOf: (uid, slice) => {
      const now = monotonicMs();
      for (const [port, { atMs }] of reserved) if (now - atMs > RESERVED_MS) reserved.delete(port);
      const others = slices().filter(({ metadata }) => metadata.labels?.[LABEL_SERVICE_UID] !== uid);
      const taken = new Set(others.map(portIn));
      for (const [port, { uid: owner }] of reserved) if (owner !== uid) taken.add(port);
      const own = portIn(slice);
      const port = own !== undefined && keeps(slice, others) ? own : freePort(uid, taken);
      if (port !== undefined) reserved.set(port, { uid, atMs: now });
      return port;
    },
  };
}

/** Two leaders may have chosen the same port: the older slice keeps it. */
function keeps(slice: EndpointSlice | undefined, others: readonly EndpointSlice[]): boolean {
  const port = portIn(slice);
  return others.every(
    (other) => portIn(other) !== port || slice === undefined || compareAge(slice, other) < 0,
  );
}

function freePort(uid: string, taken: ReadonlySet<number | undefined>): number | undefined {
  const start = Number.parseInt(hash(uid, 8), 16) % PORTS;
  for (let step = 0; step < PORTS; step += 1) {
    const port = FIRST_RELAY_PORT + ((start + step) % PORTS);
    if (!taken.has(port)) return port;
  }
  return undefined;
}

/** Undefined also for a port that no relay would open. */
function portIn(slice: EndpointSlice | undefined): number | undefined {
  const port = slice?.ports?.[0]?.port ?? 0;
  return isRelayPort(port) ? port : undefined;
}
