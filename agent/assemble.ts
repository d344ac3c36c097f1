/** Builds the agent's parts and wires them together; only the reads of the machine run already. */
import type { MetalbridgeError } from "../src/api/errors.ts";
import { createTally } from "../src/http/metrics/tally.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { createEventRecorder } from "../src/kube/events.ts";
import { createRunCommand, type RunCommand } from "../src/macos/command.ts";
import type { HostReader } from "../src/macos/host-reader.ts";
import { capacityWithPurging, excludeFromBackup } from "../src/macos/volume.ts";
import { attach, look } from "./attach.ts";
import { storeOptions } from "./config/store-options.ts";
import { createLateEndpoints } from "./endpoints/late-endpoints.ts";
import { createEngineDrivers, engineEnvironment } from "./engines/registry.ts";
import { type AddressAnswer, chooseAddress, watchAddressesUp } from "./host/addresses.ts";
import { keepAwake } from "./host/awake.ts";
import { createHostReader, readBootId } from "./host/reader.ts";
import { createInstances, type Instances } from "./instances/instances.ts";
import type { Counted, Parts, Wiring } from "./parts.ts";
import type { Seen } from "./preflight.ts";
import { createPressureWatch, type PressureWatch } from "./pressure/pressure-watch.ts";
import { openKeptHost } from "./registration/kept-host.ts";
import { createLateClient } from "./registration/late-client.ts";
import { createHostObserver } from "./registration/observe-host.ts";
import type { Trouble } from "./registration/registration.ts";
import type { ReplicaRunner } from "./replicas/ports.ts";
import { createReplicaRunner } from "./replicas/runner.ts";
import type { MetricsFacts } from "./server/facts.ts";
import { REPORTER } from "./session.ts";
import { addressOf, budgetOf, quotaOf, troublesOf } from "./state-views.ts";
import { openStore } from "./store/store.ts";
import type { ModelStore } from "./store/types.ts";

export interface Assembled {
  readonly runner: ReplicaRunner;
  readonly instances: Instances;
  readonly troubles: () => readonly Trouble[];
  readonly facts: () => MetricsFacts;
  /** Counts an answer of the API server. */
  readonly countAnswer: (verb: string, status: number) => void;
  readonly setConnectTrouble: (error: MetalbridgeError) => void;
  /** Reads machine and Host once, for a dry run. */
  readonly look: (connection: KubeConnection) => Promise<Seen>;
  /** Starts the session with the cluster. */
  readonly attach: (connection: KubeConnection) => Promise<void>;
  /** Resolves once the saved Host is on disk. */
  readonly settled: () => Promise<void>;
}

export async function assemble(wiring: Wiring): Promise<Assembled> {
  const { config, clock, log, signal, environment } = wiring;
  const { state, keptHost } = recall(wiring);
  const startedAtMs = clock.nowMs() - process.uptime() * 1_000;
  const counted: Counted = { startedAtMs, apiRequests: createTally(), downloadedBytes: 0 };
  const run = createRunCommand(environment.toolPath);
  const store = await openCountedStore(wiring, counted, quotaOf(state.host), run);
  const lateClient = createLateClient();
  const lateEndpoints = createLateEndpoints();
  const { client } = lateClient;
  const up = watchAddressesUp(clock);
  const address = () => addressNow(wiring, state, runner.addressesInUse(), up.now());
  const reader = createHostReader(config.platform, run);
  const instances = openInstances(wiring, reader);
  const drivers = createEngineDrivers({ env: engineEnvironment(environment.all), config, instances });
  const observer = createHostObserver({
    ...{ store, clock, log, address },
    reader: { ...reader, memory: async () => pressure.latest() ?? pressure.read() },
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
  const reporting = { reportingController: REPORTER, reportingInstance: config.hostName };
  const runner = createReplicaRunner({
    ...{ clock, log, store, drivers, processes: instances.processes, memoryBudget, client },
    memoryLevel: () => pressure.judgement()?.level,
    memory: { latest: () => pressure.latest(), read: () => pressure.read() },
    recorder: createEventRecorder({ client, clock, log, signal, ...reporting }),
    stateDir: config.stateDir,
    endpoints: lateEndpoints,
    portRange: config.portRange,
    ...{ address: () => addressOf(address()), isAddressUp: (known) => up.now().has(known) },
    // Where pressure is not watched, the budget alone decides.
    ...(config.dryRun ? {} : { mayStart: (uid) => pressure.mayStart(uid) }),
    timings: config.drain,
  });
  const pressure = createPressureWatch({
    ...{ reader, runner, clock, log, signal },
    mayEvict: () => state.host?.spec.memory.evictionEnabled ?? true,
  });
  if (!config.dryRun) watchMachine(wiring, runner, pressure);
  // Not awaited: listing the engines' devices takes longer than adopting engines. Until then no replica is admitted.
  observer.observe().then(
    () => runner.enqueueAll(),
    (err: unknown) => log.error({ err }, "this machine could not be read"),
  );
  const parts: Parts = {
    ...{ state, keptHost, store, observer, runner, lateClient, lateEndpoints, address, up, counted },
  };
  return {
    ...{ instances, runner },
    countAnswer: (verb, status) => counted.apiRequests.add({ verb, code: String(status) }),
    setConnectTrouble: (error) => {
      state.connectTrouble = error;
    },
    troubles: () => troublesOf(state, { ...observer.latest(), address: address() }),
    facts: () => factsOf(wiring, parts, memoryBudget()),
    look: (connection) => look(wiring, parts, connection),
    attach: (connection) => attach(wiring, parts, connection),
    settled: keptHost.settled,
  };
}

function watchMachine(
  { config, environment, clock, log, signal }: Wiring,
  runner: ReplicaRunner,
  pressure: PressureWatch,
): void {
  void pressure.start();
  if (config.platform !== "darwin") return;
  const hasEngines = (): boolean => runner.snapshot().some(({ pid }) => pid !== undefined);
  keepAwake({ path: environment.toolPath, hasEngines, clock, log, signal });
}

/** The address that engines are served on, from what is known now. */
function addressNow(
  { config }: Wiring,
  { host, routed }: Parts["state"],
  inUse: readonly string[],
  up: ReadonlySet<string>,
): AddressAnswer {
  return chooseAddress({ configured: config.addresses, allowed: host?.spec.addresses, routed, inUse }, up);
}

/** The Host as last seen applies until it is read again. */
function recall({ config, log }: Wiring): Pick<Parts, "state" | "keptHost"> {
  const keptHost = openKeptHost(config.stateDir, config.hostName, log);
  return { keptHost, state: { host: keptHost.read() } };
}

function openInstances({ config, clock, log }: Wiring, { footprintBytes }: HostReader): Instances {
  const { maxSize: maxBytes, keep } = config.engineLogs;
  const { stateDir } = config;
  return createInstances({ stateDir, clock, log, footprintBytes, logLimits: { maxBytes, keep } });
}

async function openCountedStore(
  { config, clock, log }: Wiring,
  counted: Counted,
  hostQuota: number | undefined,
  run: RunCommand,
): Promise<ModelStore> {
  const bootId = await readBootId(config.platform, run);
  const isMac = config.platform === "darwin";
  const onReceived = (bytes: number): void => {
    counted.downloadedBytes += bytes;
  };
  const options = storeOptions(config, hostQuota);
  const store = await openStore({
    ...{ ...options, clock, log, bootId, onReceived },
    ...(isMac ? { capacityWithPurging: (folder) => capacityWithPurging(run, folder) } : {}),
  });
  if (isMac && !config.dryRun) {
    const warning = "Time Machine backs up the models; exclude the folder in its settings";
    // Not awaited: engines are adopted first.
    void excludeFromBackup(run, options.dir).then(
      (isExcluded) => isExcluded || log.warn({ folder: options.dir }, warning),
    );
  }
  return store;
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
