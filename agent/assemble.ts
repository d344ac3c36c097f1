/** Builds the agent's parts and ties them together; nothing runs yet but what was asked of the machine. */
import type { MetalbridgeError } from "../src/errors.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { createEventRecorder } from "../src/kube/events.ts";
import { createTally } from "../src/metrics/tally.ts";
import { attach, look } from "./attach.ts";
import { computeTableOf } from "./config/compute-table.ts";
import { storeOptions } from "./config/store-options.ts";
import { createLateEndpoints } from "./endpoints/late-endpoints.ts";
import { createEngineDrivers, engineEnvironment } from "./engines/registry.ts";
import { type AddressAnswer, chooseAddress, watchAddressesUp } from "./host/addresses.ts";
import { createRunCommand } from "./host/command.ts";
import { createHostReader } from "./host/reader.ts";
import type { Counted, Parts, Wiring } from "./parts.ts";
import { createPressureWatch } from "./pressure/pressure-watch.ts";
import type { EngineProcesses } from "./process/engine-process.ts";
import { createIdentity } from "./process/identity/identity.ts";
import { createEngineProcesses } from "./process/processes.ts";
import { openKeptHost } from "./registration/kept-host.ts";
import { createLateClient } from "./registration/late-client.ts";
import { createHostObserver } from "./registration/observe-host.ts";
import type { Trouble } from "./registration/registration.ts";
import { type NotedProcesses, noteAddresses } from "./replicas/addresses-in-use.ts";
import type { ReplicaRunner } from "./replicas/ports.ts";
import { createReplicaRunner } from "./replicas/runner.ts";
import type { MetricsFacts } from "./server/facts.ts";
import { addressOf, budgetOf, quotaOf, troublesOf } from "./state-views.ts";
import { openStore } from "./store/store.ts";
import type { ModelStore } from "./store/types.ts";

export interface Assembled {
  readonly runner: ReplicaRunner;
  readonly processes: EngineProcesses;
  readonly troubles: () => readonly Trouble[];
  readonly facts: () => MetricsFacts;
  /** Counts an answer of the API server. */
  readonly countAnswer: (verb: string, status: number) => void;
  readonly setConnectTrouble: (error: MetalbridgeError) => void;
  /** Reads machine and Host once, for a plan that nothing comes of. */
  readonly look: (connection: KubeConnection) => Promise<void>;
  /** Begins the life with the cluster. */
  readonly attach: (connection: KubeConnection) => Promise<void>;
  /** What was written down about the Host is on disk. */
  readonly settled: () => Promise<void>;
}

export async function assemble(wiring: Wiring): Promise<Assembled> {
  const { config, clock, log, signal, environment } = wiring;
  const { state, keptHost } = recall(wiring);
  const startedAtMs = clock.nowMs() - process.uptime() * 1_000;
  const counted: Counted = { startedAtMs, apiRequests: createTally(), downloadedBytes: 0 };
  const store = await openCountedStore(wiring, counted, quotaOf(state.host));
  const paths = { llamacpp: config.llamaServer };
  const drivers = createEngineDrivers({ env: engineEnvironment(environment.all), paths });
  const processes = openProcesses(wiring);
  const lateClient = createLateClient();
  const lateEndpoints = createLateEndpoints();
  const { client } = lateClient;
  const up = watchAddressesUp(clock);
  const address = () => addressNow(wiring, state, processes.addressesInUse(), up.now());
  const reader = createHostReader(config.platform, createRunCommand(environment.toolPath));
  const observer = createHostObserver({
    ...{ store, clock, log, address },
    reader: { ...reader, memory: () => pressure.memory() },
    judgement: () => pressure.judgement(),
    drivers: [...drivers.values()],
    agentVersion: environment.agentVersion,
    budgetBytes: config.memory.budget,
    diskReserveBytes: config.disk.reserve,
    claimedBytes: () => runner.claimedBytes(),
    isWorking: () => state.session?.isSynced() === true,
    mayCollect: () => state.session?.isSynced() === true && runner.hasLookedAtAll(),
  });
  const memoryBudget = (): number | undefined => budgetOf(state.host, observer.latest());
  const reporting = { reportingController: "metalbridge.dev/agent", reportingInstance: config.hostName };
  const runner = createReplicaRunner({
    ...{ clock, log, store, drivers, processes, memoryBudget, client, computeTable: computeTableOf(config) },
    ...{ footprintBytes: reader.footprintBytes, memoryLevel: () => pressure.judgement()?.level },
    memoryAvailable: () => observer.latest()?.memory.availableBytes,
    recorder: createEventRecorder({ client, clock, log, signal, ...reporting }),
    stateDir: config.stateDir,
    endpoints: lateEndpoints,
    portRange: config.portRange,
    ...{ address: () => addressOf(address()), isAddressUp: (known) => up.now().has(known) },
    ...(config.dryRun ? { isDryRun: true } : { mayStart: (uid) => pressure.mayStart(uid) }),
    timings: config.drain,
  });
  const pressure = createPressureWatch({
    ...{ reader, runner, clock, log, signal },
    mayEvict: () => state.host?.spec.memory.evictionEnabled ?? true,
  });
  if (!config.dryRun) void pressure.start();
  // Not waited for: asking engines for their devices takes longer than adopting them. Until then nothing is admitted.
  observer.observe().then(
    () => runner.enqueueAll(),
    (err: unknown) => log.error({ err }, "this machine could not be read"),
  );
  const parts: Parts = {
    ...{ state, keptHost, store, observer, runner, lateClient, lateEndpoints, address, up, counted },
  };
  return {
    ...{ processes, runner },
    countAnswer: (verb, status) => counted.apiRequests.add({ verb, code: String(status) }),
    setConnectTrouble: (error) => {
      state.connectTrouble = error;
    },
    troubles: () => troublesOf(state),
    facts: () => factsOf(wiring, parts, memoryBudget()),
    look: (connection) => look(wiring, parts, connection),
    attach: (connection) => attach(wiring, parts, connection),
    settled: keptHost.settled,
  };
}

/** Where engines are served, from what is known at this moment. */
function addressNow(
  { config }: Wiring,
  { host, routed }: Parts["state"],
  inUse: readonly string[],
  up: ReadonlySet<string>,
): AddressAnswer {
  return chooseAddress({ configured: config.addresses, allowed: host?.spec.addresses, routed, inUse }, up);
}

/** The Host as it was last seen counts until it is seen again. */
function recall({ config, log }: Wiring): Pick<Parts, "state" | "keptHost"> {
  const keptHost = openKeptHost(config.stateDir, config.hostName, log);
  return { keptHost, state: { host: keptHost.read() } };
}

function openProcesses({ config, clock, log }: Wiring): NotedProcesses {
  const { maxSize, keep } = config.engineLogs;
  const identity = createIdentity(process.platform);
  return noteAddresses(
    createEngineProcesses({ clock, log, identity, logLimits: { maxBytes: maxSize, keep } }),
  );
}

function openCountedStore(
  { config, clock, log }: Wiring,
  counted: Counted,
  hostQuota: number | undefined,
): Promise<ModelStore> {
  const onReceived = (bytes: number): void => {
    counted.downloadedBytes += bytes;
  };
  return openStore({ ...storeOptions(config, hostQuota), clock, log, onReceived });
}

function factsOf(
  { config, environment }: Wiring,
  { state, runner, observer, counted }: Parts,
  budgetBytes: number | undefined,
): MetricsFacts {
  return {
    hostName: config.hostName,
    version: environment.agentVersion,
    startedAtMs: counted.startedAtMs,
    replicas: runner.snapshot(),
    counts: runner.counts(),
    memory: observer.latest()?.memory,
    disk: observer.latest()?.disk,
    diskReserveBytes: config.disk.reserve,
    downloadedBytes: counted.downloadedBytes,
    apiRequests: counted.apiRequests,
    claimedBytes: runner.claimedBytes(),
    budgetBytes,
    isNameOurs: state.session?.isNameOurs() ?? false,
    isSynced: state.session?.isSynced() ?? false,
    watchAgeMs: state.session?.watchAgeMs(),
  };
}
