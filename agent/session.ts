/** The agent's session with the cluster: Lease and Host, and replicas and slices while it holds the host name. */
import { hostname } from "node:os";
import { AGENT_REPORTER } from "../src/api/group.ts";
import type { Host } from "../src/api/host.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { createEventRecorder } from "../src/kube/event/events.ts";
import type { ApiFailure, ApiResult, KubeClient } from "../src/kube/types.ts";
import { createCatchUp } from "../src/kube/watch/catch-up.ts";
import type { Agent, AgentInputs } from "./agent.ts";
import { createEndpoints } from "./endpoints/endpoints.ts";
import { addressOf } from "./host/addresses.ts";
import { followAddress } from "./host/follow-address.ts";
import { createPauseWatch } from "./host/pause.ts";
import { createRouteReader } from "./host/routed-address.ts";
import { readInstanceId } from "./registration/instance-id.ts";
import { createRegistration } from "./registration/registration.ts";
import { createRemoteAccess, type RemoteAccess } from "./remote/remote.ts";
import { createReplicaWatch } from "./replica-watch.ts";
import type { ClusterSession } from "./state.ts";

export const USER_AGENT = "metalbridge-agent";

/** Builds the parts that need the connection, connects them to the running ones, and watches for sleep and address changes. */
export async function startSession(agent: Agent, connection: KubeConnection): Promise<void> {
  const { inputs, state, runner, peers, store } = agent;
  const { config, clock, log, signal } = inputs;
  const client = createClient(connection, { userAgent: USER_AGENT });
  const readRoute =
    config.addresses.length > 0 ? undefined : createRouteReader(() => connection.server, clock);
  const [routed, instanceId] = await Promise.all([readRoute?.(), readOwnInstanceId(agent)]);
  state.setRoute(routed);
  const remote = remoteAccessOf(agent, client);
  /** Serves peers and remote users on the engines' address, which the Host allows. */
  const serveHost = (): void => {
    const address = addressOf(agent.address());
    peers?.serveOn(address, store.contents);
    remote?.listenOn(address, () => runner.snapshot());
  };
  const cluster = joinCluster(agent, connection, { client, instanceId, remote, onHost: serveHost });
  state.connected(cluster);
  peers?.connect(connection);
  serveHost();
  /** Replaces all connections, including those of watches and downloads: after a sleep or a change of address or route they are dead. */
  const reconnect = (): void => {
    cluster.wake();
    store.reconnect();
  };
  const checkPause = createPauseWatch({
    clock,
    log,
    onPause: (pause) => {
      runner.wake(pause);
      reconnect();
    },
  });
  followAddress({
    clock,
    log,
    signal,
    readRoute,
    onPoll: (everyMs) => {
      checkPause(everyMs);
      agent.addressesUp.refresh();
    },
    onRouted: (address) => state.setRoute(address),
    address: () => addressOf(agent.address()),
    onChange: () => {
      reconnect();
      serveHost();
      runner.enqueueAll();
    },
  });
}

interface Joining {
  readonly client: KubeClient;
  readonly instanceId: string;
  readonly remote: RemoteAccess | undefined;
  /** The Host was read, changed or deleted. */
  readonly onHost: () => void;
}

/** Competes for the host name. While this agent holds it, replicas are watched and written. */
function joinCluster(
  agent: Agent,
  connection: KubeConnection,
  { client, instanceId, remote, onHost }: Joining,
): ClusterSession & { readonly wake: () => void } {
  const { inputs, runner, models, transport } = agent;
  const { config, clock, log, signal, endSignal } = inputs;
  const { hostName } = config;
  const reporter = { reportingController: AGENT_REPORTER, reportingInstance: hostName };
  const shared = { connection, clock, log, signal, hostName };
  const registration = createRegistration({
    ...shared,
    client,
    instanceId,
    machine: () => `${hostname()} (${ownAddress(agent) ?? "no address"})`,
    create: config.register ? () => ownAddresses(agent) : undefined,
    observe: async () => ({ ...(await agent.observe()), remote: remote?.status() }),
    onHost: (host) => {
      takeHost(agent, host);
      onHost();
      runner.enqueueAll();
    },
    // Uses the plain client, because the agent that does not hold the name must report that.
    record: createEventRecorder({ client, clock, log, signal: endSignal, ...reporter }),
  });
  const hostClient = createHostClient(client, registration.isNameOurs);
  const record = createEventRecorder({ client: hostClient, clock, log, signal, ...reporter });
  const endpoints = createEndpoints({
    ...shared,
    client,
    signal: endSignal,
    mayWrite: registration.isNameOurs,
    fingerprint: () => transport.fingerprint(),
    onChange: (key) => runner.sliceChanged(key),
  });
  transport.connect(endpoints.areSealedWith);
  const replicas = createReplicaWatch({ ...shared, runner, onSynced: registration.report });
  runner.connect({ client: hostClient, recorder: record, endpoints });
  models.connect({ client: hostClient, record });
  agent.benchmark.connect(hostClient);
  const { answered } = createCatchUp({
    clock,
    signal,
    replaced: connection.replaced,
    reflectors: () =>
      [registration.hosts(), replicas.current(), endpoints.watch].filter((watch) => watch !== undefined),
  });
  // The Lease loop is the first to notice that the API server is reachable again; the watches must not wait out their backoff.
  registration.start({ onNameOurs: replicas.begin, onNameTaken: replicas.end, onAnswered: answered });
  return {
    isNameOurs: registration.isNameOurs,
    isSynced: replicas.isSynced,
    watchAgeMs: replicas.ageMs,
    problems: () => [...registration.problems(), ...replicas.problems()],
    report: registration.report,
    /** After a sleep cached state may be out of date, and connections may be dead. */
    wake: () => {
      connection.dropIdle();
      endpoints.retryNow();
      registration.wake();
      replicas.current()?.relist();
      endpoints.watch.relist();
    },
  };
}

function takeHost(
  { inputs, state, cachedHost, models, benchmark, store }: Agent,
  host: Host | undefined,
): void {
  state.setHost(host);
  cachedHost.save(host);
  if (host !== undefined) models.take(host);
  if (host !== undefined) benchmark.take(host);
  store.setQuota(state.quotaBytes() ?? inputs.config.disk.quota);
}

async function readOwnInstanceId({ inputs, observer }: Agent): Promise<string> {
  const machineId = await observer.machineId();
  const { id, wasCopied } = await readInstanceId(inputs.config.stateDir, machineId);
  if (wasCopied)
    inputs.log.warn(
      { machineId },
      "the state folder was copied from another machine; this agent has a new identity",
    );
  return id;
}

function remoteAccessOf({ inputs, state }: Agent, client: KubeClient): RemoteAccess | undefined {
  const { config, doctor, clock, log, signal }: AgentInputs = inputs;
  const { logs, doctor: mayRunDoctor } = config.remoteAccess;
  if (!logs && !mayRunDoctor) return undefined;
  return createRemoteAccess({ config, doctor, client, clock, log, signal, onChange: () => state.report() });
}

function ownAddress({ address, state }: Agent): string | undefined {
  return addressOf(address()) ?? state.routed();
}

/** Addresses for a Host that the agent creates. Read at that time, because DHCP or a VPN may come up after the agent. */
function ownAddresses(agent: Agent): readonly string[] {
  const { addresses } = agent.inputs.config;
  if (addresses.length > 0) return addresses;
  const now = ownAddress(agent);
  return now === undefined ? [] : [now];
}

const NOT_OURS: ApiFailure = {
  kind: "unavailable",
  status: 0,
  reason: "HostNameTaken",
  message: "another agent holds this host's name",
};

/** A client that writes nothing while another agent holds the host name. */
function createHostClient(client: KubeClient, isNameOurs: () => boolean): KubeClient {
  const write = async <T>(send: () => Promise<ApiResult<T>>): Promise<ApiResult<T>> =>
    isNameOurs() ? send() : { ok: false, error: NOT_OURS };
  return {
    ...client,
    create: (kind, object, options) => write(() => client.create(kind, object, options)),
    update: (kind, object, options) => write(() => client.update(kind, object, options)),
    apply: (kind, object, options) => write(() => client.apply(kind, object, options)),
    jsonPatch: (kind, ref, operations, options) =>
      write(() => client.jsonPatch(kind, ref, operations, options)),
    remove: (kind, ref, options) => write(() => client.remove(kind, ref, options)),
  };
}
