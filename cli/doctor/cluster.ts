/** What doctor asks the API server: whether it answers, its clock, and the agent's own preflight. */
import type { AgentConfig } from "../../agent/config/schema.ts";
import { chooseAddress } from "../../agent/host/addresses.ts";
import { routedAddress } from "../../agent/host/routed-address.ts";
import type { FoundRuntimes } from "../../agent/registration/host-status.ts";
import { runPreflight } from "../../agent/registration/preflight.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import type { ApiReading, Reading, Readings } from "../../src/doctor/readings.ts";
import { connect, type KubeConnection } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { explainFailure } from "../../src/kube/errors.ts";

export interface ClusterReadings {
  readonly api: Reading<ApiReading>;
  readonly preflight: Reading<Readings["preflight"]>;
  /** The local address of the route to the API server. */
  readonly routed: string | undefined;
}

/** Resolves with the error if the kubeconfig cannot work. */
export async function openCluster(config: AgentConfig): Promise<KubeConnection | MetalbridgeError> {
  try {
    const { kubeconfig: kubeconfigPath, context } = config;
    return await connect({ kubeconfigPath, context, userAgent: "metalbridge-doctor" });
  } catch (error) {
    if (error instanceof MetalbridgeError) return error;
    throw error;
  }
}

export async function readCluster(
  connection: KubeConnection | MetalbridgeError,
  {
    config,
    up,
    runtimes,
    serverFault,
    timeoutMs,
  }: {
    readonly config: AgentConfig;
    readonly up: ReadonlySet<string>;
    readonly runtimes: Promise<FoundRuntimes>;
    /** Why the name of the API server cannot be resolved, if it cannot. */
    readonly serverFault: Promise<string | undefined>;
    /** Time limit of each request. */
    readonly timeoutMs: number;
  },
): Promise<ClusterReadings> {
  if (connection instanceof MetalbridgeError) {
    const { code, message } = connection;
    const api = { server: "the cluster", sentMs: 0, receivedMs: 0, failure: { code, message } };
    return { api: { value: api }, preflight: { unknown: message }, routed: undefined };
  }
  const { server } = connection;
  const fault = await serverFault;
  if (fault !== undefined) {
    const failure = { code: "ApiUnreachable" as const, message: `its name cannot be resolved: ${fault}` };
    const api = { server, sentMs: 0, receivedMs: 0, failure };
    return {
      api: { value: api },
      preflight: { unknown: "the API server's name has no address" },
      routed: undefined,
    };
  }
  const [api, routed] = await Promise.all([queryVersion(connection, timeoutMs), routedAddress(server)]);
  if (api.failure !== undefined)
    return { api: { value: api }, preflight: { unknown: "the API server gave no answer" }, routed };
  const client = createClient(connection, { timeoutMs });
  const { hostName, addresses } = config;
  // The role of the agent allows list for Hosts, but not get.
  const hosts = await client.list<Host>(HOSTS, { fieldSelector: `metadata.name=${hostName}` });
  const host = hosts.ok ? hosts.value.items[0] : undefined;
  const address = chooseAddress(
    { configured: addresses, allowed: host?.spec.addresses, routed, inUse: [] },
    up,
  );
  const serverAheadMs = connection.serverAheadMs();
  const observed = { host, address, runtimes: await runtimes, server, serverAheadMs };
  const checks = await runPreflight(client, config, observed);
  return { api: { value: api }, preflight: { value: checks }, routed };
}

/** Any client may read /version. */
async function queryVersion(connection: KubeConnection, timeoutMs: number): Promise<ApiReading> {
  const { server } = connection;
  const signal = AbortSignal.timeout(timeoutMs);
  const sentMs = Date.now();
  const answer = await connection.stream({ method: "GET", path: "/version", timeoutMs, signal });
  const receivedMs = Date.now();
  if (!answer.ok) {
    const { code, message } = explainFailure(answer.error);
    return { server, sentMs, receivedMs, failure: { code, message } };
  }
  answer.value.resume();
  const dateMs = Date.parse(answer.value.headers.date ?? "");
  return { server, sentMs, receivedMs, dateMs: Number.isNaN(dateMs) ? undefined : dateMs };
}
