/** All invariants, in the order of the report. */
import { convergence } from "./convergence.ts";
import { gatewayAccounts, gatewayRequests, gatewayReturns, revokedKeys } from "./gateway.ts";
import type { Invariant } from "./invariant.ts";
import { leftovers, orphans } from "./leftovers.ts";
import { oneEngine } from "./one-engine.ts";
import { gateReturns, partsLive } from "./parts.ts";
import { requests } from "./requests.ts";
import { truthOfEndpoints, truthOfReplicas } from "./truth/claims.ts";
import { countsOfServices } from "./truth/counts.ts";
import { falseHangs, hungEngines } from "./truth/hung.ts";
import { statedReasons } from "./truth/reasons.ts";
import { silentHosts } from "./truth/silence.ts";

export const INVARIANTS: readonly Invariant[] = [
  requests,
  oneEngine,
  truthOfEndpoints,
  truthOfReplicas,
  hungEngines,
  falseHangs,
  silentHosts,
  countsOfServices,
  statedReasons,
  orphans,
  partsLive,
  gateReturns,
  gatewayRequests,
  gatewayReturns,
  gatewayAccounts,
  revokedKeys,
  convergence,
  leftovers,
];
