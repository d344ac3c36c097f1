/** Endpoints that exist before the connection does: nothing is known and nothing can be written until then. */
import type { Endpoints } from "../replicas/ports.ts";

export interface DeferredEndpoints extends Endpoints {
  readonly connect: (real: Endpoints) => void;
}

export function createDeferredEndpoints(): DeferredEndpoints {
  let real: Endpoints | undefined;
  const notYet = { ok: false, message: "there is no connection to the API server yet" } as const;
  return {
    state: (replica, wanted) => real?.state(replica, wanted) ?? "unknown",
    announce: async (replica, endpoint) => real?.announce(replica, endpoint) ?? notYet,
    withdraw: async (replica) => real?.withdraw(replica) ?? notYet,
    connect: (endpoints) => {
      real = endpoints;
    },
  };
}
