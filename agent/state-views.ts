/** Small views of the agent's state. Pure. */

import type { MetalbridgeError } from "../src/api/errors.ts";
import { parseQuantity } from "../src/api/fields/quantity.ts";
import { type Host, hostSchema } from "../src/api/host.ts";
import { hostBudget } from "../src/capacity/budget.ts";
import type { MemoryReading } from "../src/macos/host-reader.ts";
import type { AddressAnswer } from "./host/addresses.ts";
import { hostProblemOf, type ObservedHost } from "./registration/host-status.ts";
import type { HostProblem } from "./registration/registration.ts";
import type { ClusterSession } from "./session.ts";

/** What the agent learns while it runs. */
export interface AgentState {
  host?: Host | undefined;
  routed?: string | undefined;
  session?: ClusterSession;
  connectTrouble?: MetalbridgeError;
  credential?: NonNullable<ObservedHost["credential"]>;
}

/** The same calculation as placement's, from this machine's own readings. Undefined while they fail. */
export function budgetOf(
  host: Host | undefined,
  latest: { readonly memory: MemoryReading; readonly gpuBudgetBytes: number | undefined } | undefined,
): number | undefined {
  if (latest === undefined) return undefined;
  const { totalBytes } = latest.memory;
  const memory = {
    totalBytes,
    gpuBudgetBytes: latest.gpuBudgetBytes,
  };
  const budget = hostBudget({
    spec: host?.spec ?? hostSchema.parse({ metadata: { name: "unknown" } }).spec,
    status: { memory },
  });
  return budget.known ? budget.bytes : undefined;
}

/** The operator's disk quota. */
export function quotaOf(host: Host | undefined): number | undefined {
  const quota = host?.spec.disk?.quota;
  return quota === undefined ? undefined : parseQuantity(quota);
}

export function addressOf(answer: AddressAnswer): string | undefined {
  return answer.at === "up" ? answer.address : undefined;
}

/** Why the agent is not ready, most basic reason first. */
export function agentProblems(
  { session, connectTrouble, host }: AgentState,
  seen: Partial<Pick<ObservedHost, "runtimes">> & Pick<ObservedHost, "address">,
): readonly HostProblem[] {
  if (connectTrouble !== undefined) return [{ code: connectTrouble.code, message: connectTrouble.message }];
  if (session === undefined)
    return [{ code: "Starting", message: "there is no connection to the API server yet" }];
  const troubles = session.troubles();
  if (troubles.length > 0) return troubles;
  const { address, runtimes } = seen;
  const trouble =
    host === undefined || runtimes === undefined ? undefined : hostProblemOf(host, { address, runtimes });
  if (trouble !== undefined) return [trouble];
  if (session.isSynced()) return [];
  return [{ code: "Starting", message: "the replicas have not been listed yet" }];
}
