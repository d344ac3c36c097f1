/** `--dry-run`: runs the preflight checks and prints what the agent would do. Changes nothing. */
import { readdir } from "node:fs/promises";
import { MetalbridgeError } from "../src/api/errors.ts";
import type { Host } from "../src/api/host.ts";
import type { InferenceReplica } from "../src/api/inference-replica.ts";
import { HOSTS, INFERENCE_REPLICAS } from "../src/api/kinds.ts";
import { type ConnectOptions, connect, type KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { explainFailure } from "../src/kube/errors.ts";
import type { KubeClient } from "../src/kube/types.ts";
import { systemCode } from "../src/util/atomic-file.ts";
import type { Agent } from "./agent.ts";
import type { AgentConfig } from "./config/schema.ts";
import { routedAddress } from "./host/routed-address.ts";
import {
  type PreflightObservation,
  renderChecks,
  requirePassed,
  runPreflight,
} from "./registration/preflight.ts";

/** Throws MetalbridgeError if the cluster cannot be read, and PreflightFailed if a check failed. */
export async function dryRunAgent(
  options: ConnectOptions & Pick<AgentConfig, "hostName" | "register" | "portRange">,
  agent: Agent,
  print: (text: string) => void,
): Promise<void> {
  const connection = await connect(options);
  try {
    const client = createClient(connection);
    const checks = await runPreflight(client, options, await observeOnce(agent, connection, client));
    print(renderChecks(checks));
    const listed = await client.list<InferenceReplica>(INFERENCE_REPLICAS, {
      fieldSelector: `spec.template.hostName=${options.hostName}`,
    });
    if (!listed.ok) throw explainFailure(listed.error, { account: options.hostName });
    await agent.runner.inspect(listed.value.items);
    const plans = await agent.runner.describePlans();
    print(plans === "" ? `nothing to do: no replica is assigned to ${options.hostName}` : plans);
    requirePassed(checks);
  } finally {
    connection.close();
  }
}

/** Reads machine and Host. Lists Hosts, because the agent has no right to get one. */
async function observeOnce(
  { state, observe, address, inputs }: Agent,
  { server, serverAheadMs }: KubeConnection,
  client: KubeClient,
): Promise<PreflightObservation> {
  const fieldSelector = `metadata.name=${inputs.config.hostName}`;
  const [hosts, routed, { runtimes }] = await Promise.all([
    client.list<Host>(HOSTS, { fieldSelector }),
    routedAddress(server),
    observe(),
  ]);
  const host = hosts.ok ? hosts.value.items[0] : undefined;
  if (host !== undefined) state.setHost(host);
  state.setRoute(routed);
  return { host, address: address(), runtimes, server, serverAheadMs: serverAheadMs() };
}

/** The folder may be missing. Throws StateDirUnusable if it cannot be read, for example because another user owns it. */
export async function requireReadable(stateDir: string): Promise<void> {
  try {
    await readdir(stateDir);
  } catch (cause) {
    if (systemCode(cause) === "ENOENT") return;
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new MetalbridgeError("StateDirUnusable", `${stateDir} cannot be read: ${why}`, undefined, {
      cause,
    });
  }
}
