/** Builds the agent's parts in order: each part gets only earlier ones. Nothing reads the machine, writes or waits, except to open the store. */
import { join } from "node:path";
import { createTally, type Tally } from "../src/http/metrics/tally.ts";
import type { HostReader } from "../src/macos/host-reader.ts";
import { createShell } from "../src/macos/shell.ts";
import { capacityWithPurging } from "../src/macos/volume.ts";
import { hasRecord } from "../src/supervise/run-directory.ts";
import { createRunCommand, type RunCommand } from "../src/util/command.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import { createHostBenchmark, type HostBenchmark } from "./benchmark/benchmark.ts";
import type { Environment } from "./config/environment.ts";
import type { AgentConfig } from "./config/schema.ts";
import { storeOptionsOf } from "./config/store-options.ts";
import { createEngineDrivers, engineEnvironment } from "./engines/registry.ts";
import { createGateRoutes, type GateRoutes } from "./gate/gate-routes.ts";
import { type AddressAnswer, type AddressesUp, addressOf, watchAddressesUp } from "./host/addresses.ts";
import { createHostConditions, readSpeedConditions } from "./host/conditions.ts";
import { createHostReader, readBootId } from "./host/reader.ts";
import { createInstances, ENGINES_FOLDER, GATE_FOLDER, type Instances } from "./instances/instances.ts";
import { createPeers, type Peers } from "./peers/peers.ts";
import { createPressureWatch, type PressureWatch } from "./pressure/pressure-watch.ts";
import { type CachedHost, openCachedHost } from "./registration/cached-host.ts";
import type { ObservedHost } from "./registration/host-status.ts";
import { createHostObserver, type HostObserver } from "./registration/observe-host.ts";
import type { RunDoctor } from "./remote/server.ts";
import type { ReplicaRunner } from "./replicas/context/ports.ts";
import { createReplicaRunner } from "./replicas/runner.ts";
import { AgentState } from "./state.ts";
import { openStore } from "./store/store.ts";
import type { ModelStore } from "./store/types.ts";
import { createModelMaintenance, type ModelMaintenance } from "./store-maintenance/model-maintenance.ts";
import { createTransportIdentity, type TransportIdentity } from "./transport/host-transport.ts";

/** Inputs of every part of the agent. */
export interface AgentInputs {
  readonly config: AgentConfig;
  readonly environment: Environment;
  readonly log: Log;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Aborted last, after the agent has withdrawn from the cluster. */
  readonly endSignal: AbortSignal;
  /** Runs `metalbridge doctor` on this host for remote users; absent if they cannot run it. */
  readonly doctor?: RunDoctor | undefined;
}

/** The parts that are opened from disk. */
interface Opened {
  readonly run: RunCommand;
  readonly cachedHost: CachedHost;
  readonly addressesUp: AddressesUp;
  readonly state: AgentState;
  readonly peers: Peers | undefined;
  readonly store: ModelStore;
  /** Bytes that this process has downloaded. */
  readonly downloaded: { readonly bytes: number };
}

export interface Agent extends Opened {
  readonly inputs: AgentInputs;
  readonly apiRequests: Tally;
  /** When this process started, on the wall clock. */
  readonly startedAtMs: number;
  readonly instances: Instances;
  readonly gate: GateRoutes;
  readonly transport: TransportIdentity;
  readonly pressure: PressureWatch;
  readonly runner: ReplicaRunner;
  readonly observer: HostObserver;
  readonly models: ModelMaintenance;
  readonly benchmark: HostBenchmark;
  /** The current address of engines. */
  readonly address: () => AddressAnswer;
  /** Observes this machine for its Host's status. */
  readonly observe: () => Promise<ObservedHost>;
}

/** Opens the parts without touching an engine or starting anything. */
export async function openAgent(inputs: AgentInputs): Promise<Agent> {
  const { config, environment, clock, log, signal } = inputs;
  const { hostName, peers: peering } = config;
  const run = createRunCommand(environment.toolPath);
  const cachedHost = openCachedHost(config.stateDir, hostName, log);
  const addressesUp = watchAddressesUp(clock);
  const state = new AgentState(config.addresses, addressesUp, cachedHost.read());
  const peers =
    peering.enabled && !config.dryRun
      ? createPeers({ hostName, port: peering.port, maxRate: peering.maxRate, clock, log, signal })
      : undefined;
  const downloaded = { bytes: 0 };
  const options = storeOptionsOf(config);
  const store = await openStore({
    ...options,
    clock,
    log,
    bootId: await readBootId(config.platform, run),
    peers: peers?.fetcher,
    onOffers: () => state.report(),
    quotaBytes: state.quotaBytes() ?? options.quotaBytes,
    onReceived: (bytes) => {
      downloaded.bytes += bytes;
    },
    capacityWithPurging:
      config.platform === "darwin" ? (folder) => capacityWithPurging(run, folder) : undefined,
  });
  return buildAgent(inputs, { run, cachedHost, addressesUp, state, peers, store, downloaded });
}

function buildAgent(inputs: AgentInputs, opened: Opened): Agent {
  const { config, clock, log, signal, environment } = inputs;
  const { run, state, store, peers } = opened;
  const runOften = config.dryRun ? run : createShell(environment.toolPath, signal);
  const reader = createHostReader(config.platform, run, runOften);
  const pressure = createPressureWatch({ reader, clock, log, signal });
  const engines = createEngines(inputs, state, reader);
  const { instances, gate, transport, drivers } = engines;
  const runner = createRunner(inputs, opened, { ...engines, pressure });
  const address = () => state.address(runner.addressesInUse());
  const observer = createHostObserver({
    store,
    clock,
    log,
    otherPrograms: config,
    address,
    reader: { ...reader, memory: async () => pressure.latest() ?? pressure.read() },
    assessment: pressure.assessment,
    machineConditions: createHostConditions(config, environment.toolPath, clock),
    drivers: [...drivers.values()],
    agentVersion: environment.agentVersion,
    memory: config.memory,
    diskReserveBytes: config.disk.reserve,
    claimedBytes: async () => {
      await instances.daemons.measure();
      return runner.claimedBytes();
    },
    isWorking: () => state.isSynced(),
    mayCollect: () => state.isSynced() && runner.hasInspectedAll(),
    onReadings: (readings) => state.setReadings(readings),
  });
  const models = createModelMaintenance({
    config,
    clock,
    log,
    signal,
    store,
    runner,
    tempDir: environment.tempDir,
    host: () => state.host(),
    hasMemory: () => pressure.assessment()?.level === "Normal",
    onChange: () => {
      observer.forgetModels();
      benchmark.changed();
      state.report();
    },
  });
  const benchmark = createBenchmark(inputs, opened, { ...engines, pressure, runner, observer, models });
  const observe = async (): Promise<ObservedHost> => ({
    ...(await observer.observe()),
    ...models.report(),
    benchmark: benchmark.state(),
    credential: state.credential(),
    peer: peers?.status(),
    transport: transport.status(),
  });
  const startedAtMs = clock.nowMs() - process.uptime() * 1_000;
  const parts = { instances, gate, transport, pressure, runner, observer, models, benchmark, address };
  return { ...opened, ...parts, observe, inputs, startedAtMs, apiRequests: createTally() };
}

function createEngines(
  { config, environment, clock, log, signal }: AgentInputs,
  state: AgentState,
  reader: HostReader,
) {
  const { stateDir, hostName, engineLogs } = config;
  const { footprintBytes } = reader;
  const logLimits = { maxBytes: engineLogs.maxSize, keep: engineLogs.keep };
  const instances = createInstances({ stateDir, clock, log, footprintBytes, logLimits });
  const env = engineEnvironment(environment.all);
  const gate = createGateRoutes({
    processes: instances.processes,
    clock,
    log,
    env,
    folder: join(stateDir, GATE_FOLDER),
    tempDir: environment.tempDir,
    release: environment.agentVersion,
    mayRun: (uid) => hasRecord(join(stateDir, ENGINES_FOLDER, uid)),
  });
  const transport = createTransportIdentity({
    stateDir,
    hostName,
    clock,
    log,
    signal,
    onChange: () => state.report(),
    onReplaced: () => gate.reload(),
  });
  const memoryBudget = () => state.memoryBudget();
  const drivers = createEngineDrivers({
    env,
    config,
    instances,
    memoryBudget,
    gate: { routes: gate, clock },
  });
  return { instances, gate, transport, drivers };
}

function createRunner(
  { config, clock, log }: AgentInputs,
  { state, store, addressesUp }: Opened,
  {
    instances,
    transport,
    drivers,
    pressure,
  }: ReturnType<typeof createEngines> & { readonly pressure: PressureWatch },
): ReplicaRunner {
  return createReplicaRunner({
    stateDir: config.stateDir,
    clock,
    log,
    store,
    drivers,
    transport,
    processes: instances.processes,
    memory: pressure,
    memoryBudget: () => state.memoryBudget() ?? (state.isMachineUnread() ? "unread" : undefined),
    unclaimedBytes: instances.daemons.unclaimedBytes,
    memoryLevel: () => pressure.assessment()?.level,
    portRange: config.portRange,
    address: (inUse) => addressOf(state.address(inUse)),
    isAddressUp: (known) => addressesUp.now().has(known),
    // In a dry run pressure is not watched, so only the budget limits starts.
    mayStart: config.dryRun ? undefined : pressure.mayStart,
    timings: config.drain,
  });
}

function createBenchmark(
  { config, environment, clock, log }: AgentInputs,
  { state, store }: Opened,
  {
    instances: { processes },
    drivers,
    pressure,
    runner,
    observer,
    models: { downloads },
  }: ReturnType<typeof createEngines> & Pick<Agent, "pressure" | "runner" | "observer" | "models">,
): HostBenchmark {
  return createHostBenchmark({
    config,
    store,
    runner,
    drivers,
    processes,
    downloads,
    clock,
    log,
    memoryLevel: () => (state.memoryBudget() === undefined ? undefined : pressure.assessment()?.level),
    readMemory: pressure.read,
    readConditions: () => readSpeedConditions(config.platform, environment.toolPath),
    isSynced: () => state.isSynced(),
    onChange: () => {
      observer.forgetModels();
      state.report();
    },
  });
}
