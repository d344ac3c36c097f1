/** The agent: its parts, wired together, and their session with the cluster. Only `main.ts` makes one. */
import { hostname } from "node:os";
import { join } from "node:path";
import { type Host, hostSchema } from "../src/api/host.ts";
import { HOSTS } from "../src/api/kinds.ts";
import { createTally } from "../src/http/metrics/tally.ts";
import type { KubeConnection } from "../src/kube/client/connect.ts";
import { createClient } from "../src/kube/client/create-client.ts";
import { createShell } from "../src/macos/shell.ts";
import { capacityWithPurging, excludeFromBackup } from "../src/macos/volume.ts";
import { createRunCommand, type RunCommand } from "../src/util/command.ts";
import type { Clock, Log } from "../src/util/ports.ts";
import type { Environment } from "./config/environment.ts";
import type { AgentConfig } from "./config/schema.ts";
import { createEngineDrivers, engineEnvironment } from "./engines/registry.ts";
import { createGateRoutes, type GateRoutes } from "./gate/gate-routes.ts";
import { type AddressAnswer, type AddressesUp, chooseAddress, watchAddressesUp } from "./host/addresses.ts";
import { createHostConditions } from "./host/conditions.ts";
import { followAddress } from "./host/follow-address.ts";
import { keepAwake } from "./host/keep-awake.ts";
import { createPauseWatch } from "./host/pause.ts";
import { createHostReader, readBootId } from "./host/reader.ts";
import { createRouteReader, routedAddress } from "./host/routed-address.ts";
import { type HostServices, openHostServices } from "./host-services.ts";
import { createInstances, ENGINES_FOLDER, GATE_FOLDER, type Instances } from "./instances/instances.ts";
import { hasEngineFile } from "./instances/process/run-directory.ts";
import type { MetricsFacts } from "./metrics/facts.ts";
import { createPressureWatch, type PressureWatch } from "./pressure/pressure-watch.ts";
import { type CachedHost, openCachedHost } from "./registration/cached-host.ts";
import { hostStatusBody } from "./registration/host-status.ts";
import { readInstanceId } from "./registration/instance-id.ts";
import { createHostObserver, type HostObserver } from "./registration/observe-host.ts";
import type { PreflightObservation } from "./registration/preflight.ts";
import type { HostProblem } from "./registration/registration.ts";
import type { RunDoctor } from "./remote/server.ts";
import type { ReplicaRunner } from "./replicas/ports.ts";
import { createReplicaRunner } from "./replicas/runner.ts";
import { startSession } from "./session.ts";
import { type AgentState, addressOf, agentProblems, budgetOf, quotaOf } from "./state-views.ts";
import { openStore } from "./store/store.ts";
import type { ModelStore } from "./store/types.ts";
import { createModelKeeper, type ModelKeeper } from "./store-maintenance/keep-models.ts";
import { storeOptionsOf } from "./store-options.ts";

/** What every part of the agent is built from. */
export interface AgentInputs {
  readonly config: AgentConfig;
  readonly environment: Environment;
  readonly log: Log;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Aborted last, once the agent has also withdrawn from the cluster. */
  readonly endSignal: AbortSignal;
  /** Runs `metalbridge doctor` on this host for remote users; absent: they cannot run it. */
  readonly doctor?: RunDoctor | undefined;
}

/** What is opened first; `host` is the Host as last seen, which applies until it is read again. */
interface Opened {
  readonly run: RunCommand;
  readonly keptHost: CachedHost;
  readonly host: Host | undefined;
  readonly store: ModelStore;
  readonly received: { readonly bytes: number };
  readonly offered: HostServices;
  /** Called when what this host offers to others changed. */
  readonly offers: { report: () => void };
}

export class Agent {
  readonly runner: ReplicaRunner;
  readonly instances: Instances;
  readonly gate: GateRoutes;
  readonly models: ModelKeeper;
  readonly #inputs: AgentInputs;
  readonly #opened: Opened;
  readonly #observer: HostObserver;
  readonly #pressure: PressureWatch;
  readonly #addressesUp: AddressesUp;
  readonly #apiRequests = createTally();
  readonly #startedAtMs: number;
  readonly #state: AgentState;

  /** Opens what is on disk and builds the parts on it. Reading and watching the machine begin; no engine is touched. */
  static async open(inputs: AgentInputs): Promise<Agent> {
    const { config, environment, clock, log } = inputs;
    const run = createRunCommand(environment.toolPath);
    const keptHost = openCachedHost(config.stateDir, config.hostName, log);
    const host = keptHost.read();
    const received = { bytes: 0 };
    const isMac = config.platform === "darwin";
    const offers = { report: () => {} };
    const offered = openHostServices(inputs, () => offers.report());
    const options = storeOptionsOf(config);
    const store = await openStore({
      ...{ ...options, clock, log, bootId: await readBootId(config.platform, run) },
      peers: offered.taker,
      onOffers: () => offers.report(),
      quotaBytes: quotaOf(host) ?? options.quotaBytes,
      onReceived: (bytes) => {
        received.bytes += bytes;
      },
      ...(isMac ? { capacityWithPurging: (folder) => capacityWithPurging(run, folder) } : {}),
    });
    // Not awaited: engines are adopted first.
    if (isMac && !config.dryRun) void warnOfBackup(options.dir, run, log);
    const agent = new Agent(inputs, { run, keptHost, host, store, received, offered, offers });
    agent.#watchMachine();
    return agent;
  }

  private constructor(inputs: AgentInputs, opened: Opened) {
    const { config, clock, log, signal, environment } = inputs;
    const { run, store, offered } = opened;
    this.#inputs = inputs;
    this.#opened = opened;
    this.#state = { host: opened.host };
    this.#startedAtMs = clock.nowMs() - process.uptime() * 1_000;
    this.#addressesUp = watchAddressesUp(clock);
    const { stateDir, engineLogs } = config;
    const runOften = config.dryRun ? run : createShell(environment.toolPath, signal);
    const reader = createHostReader(config.platform, run, runOften);
    const logLimits = { maxBytes: engineLogs.maxSize, keep: engineLogs.keep };
    const { footprintBytes } = reader;
    this.instances = createInstances({ stateDir, clock, log, footprintBytes, logLimits });
    const env = engineEnvironment(environment.all);
    this.gate = createGateRoutes({
      ...{ processes: this.instances.processes, clock, log, env },
      folder: join(stateDir, GATE_FOLDER),
      tempDir: environment.tempDir,
      release: environment.agentVersion,
      mayRun: (uid) => hasEngineFile(join(stateDir, ENGINES_FOLDER, uid)),
    });
    const drivers = createEngineDrivers({
      ...{ env, config, instances: this.instances },
      memoryBudget: () => this.#memoryBudget(),
      gate: { routes: this.gate, clock },
    });
    const memory = { latest: () => this.#pressure.latest(), read: () => this.#pressure.read() };
    const isSynced = () => this.#state.session?.isSynced() === true;
    this.#observer = createHostObserver({
      ...{ store, clock, log, elsewhere: config, address: () => this.#address(), offered: offered.status },
      reader: { ...reader, memory: async () => memory.latest() ?? memory.read() },
      judgement: () => this.#pressure.judgement(),
      machineConditions: createHostConditions(config, environment.toolPath, clock),
      drivers: [...drivers.values()],
      agentVersion: environment.agentVersion,
      memory: config.memory,
      diskReserveBytes: config.disk.reserve,
      claimedBytes: async () => {
        await this.instances.daemons.measure();
        return this.runner.claimedBytes();
      },
      isWorking: isSynced,
      keeping: () => ({ ...this.models.report(), credential: this.#state.credential }),
      mayCollect: () => isSynced() && this.runner.hasInspectedAll(),
    });
    this.runner = createReplicaRunner({
      ...{ clock, log, store, drivers, processes: this.instances.processes, stateDir, memory },
      memoryBudget: () => this.#memoryBudget() ?? this.#observer.pending(),
      unclaimedBytes: this.instances.daemons.unclaimedBytes,
      memoryLevel: () => this.#pressure.judgement()?.level,
      portRange: config.portRange,
      address: () => addressOf(this.#address()),
      isAddressUp: (known) => this.#addressesUp.now().has(known),
      // Where pressure is not watched, the budget alone decides.
      ...(config.dryRun ? {} : { mayStart: (uid) => this.#pressure.mayStart(uid) }),
      timings: config.drain,
    });
    this.models = this.#keepModels();
    this.#pressure = createPressureWatch({
      ...{ reader, runner: this.runner, clock, log, signal },
      mayEvict: () => this.#state.host?.spec.memory.evictionEnabled ?? true,
    });
  }

  countAnswer(verb: string, status: number): void {
    this.#apiRequests.add({ verb, code: String(status) });
  }

  note(seen: Pick<AgentState, "connectTrouble" | "credential">): void {
    Object.assign(this.#state, seen);
  }

  /** Why the agent is not ready. */
  troubles(): readonly HostProblem[] {
    return agentProblems(this.#state, { ...this.#observer.latest(), address: this.#address() });
  }

  /** For metrics. */
  facts(): MetricsFacts {
    const { config, environment } = this.#inputs;
    const { session } = this.#state;
    const seen = this.#observer.latest();
    return {
      hostName: config.hostName,
      version: environment.agentVersion,
      startedAtMs: this.#startedAtMs,
      replicas: this.runner.snapshot(),
      counts: this.runner.counts(),
      memory: seen?.memory,
      disk: seen?.disk,
      diskReserveBytes: config.disk.reserve,
      downloadedBytes: this.#opened.received.bytes,
      apiRequests: this.#apiRequests,
      claimedBytes: this.runner.claimedBytes(),
      budgetBytes: this.#memoryBudget(),
      isNameOurs: session?.isNameOurs() ?? false,
      isSynced: session?.isSynced() ?? false,
      watchAgeMs: session?.watchAgeMs(),
    };
  }

  /** Reads machine and Host once, for a dry run. */
  async look(connection: KubeConnection): Promise<PreflightObservation> {
    // The agent may list Hosts, not get one.
    const [hosts, routed, seen] = await Promise.all([
      createClient(connection).list<Host>(HOSTS, {
        fieldSelector: `metadata.name=${this.#inputs.config.hostName}`,
      }),
      routedAddress(connection.server),
      this.#observer.observe(),
    ]);
    const host = hosts.ok ? hosts.value.items[0] : undefined;
    if (host !== undefined) this.#state.host = host;
    if (routed !== undefined) this.#state.routed = routed;
    const { server } = connection;
    const serverAheadMs = connection.serverAheadMs();
    return { host, address: this.#address(), runtimes: seen.runtimes, server, serverAheadMs };
  }

  /** Starts the session with the cluster, and watches for sleep and address changes from then on. */
  async attach(connection: KubeConnection): Promise<void> {
    const { config, clock, log, signal, endSignal } = this.#inputs;
    delete this.#state.connectTrouble;
    const askRoute =
      config.addresses.length > 0 ? undefined : createRouteReader(() => connection.server, clock);
    const [routed, machineId] = await Promise.all([askRoute?.(), this.#observer.machineId()]);
    const instance = await readInstanceId(config.stateDir, machineId);
    if (instance.wasCopied)
      log.warn(
        { machineId },
        "the state folder was copied from another machine; this agent has a new identity",
      );
    if (routed !== undefined) this.#state.routed = routed;
    this.#state.session = startSession({
      ...{ connection, clock, log, signal, endSignal, runner: this.runner, models: this.models },
      hostName: config.hostName,
      instanceId: instance.id,
      machine: () => `${hostname()} (${this.#ownAddress() ?? "no address"})`,
      create: config.register ? () => this.#ownAddresses() : undefined,
      observe: this.#observer.observe,
      onHost: (host) => this.#takeHost(host),
    });
    this.#opened.offers.report = this.#state.session.report;
    this.#opened.offered.connect(connection);
    this.#give();
    const look = createPauseWatch({
      ...{ clock, log },
      onPause: (pause) => {
        this.runner.wake(pause);
        this.#reconnect();
      },
    });
    followAddress({
      ...{ clock, log, signal, askRoute },
      onLook: (everyMs) => {
        look(everyMs);
        this.#addressesUp.look();
      },
      onRouted: (address) => {
        this.#state.routed = address;
      },
      address: () => addressOf(this.#address()),
      onChange: () => {
        this.#reconnect();
        this.#give();
        this.runner.enqueueAll();
      },
    });
  }

  #keepModels(): ModelKeeper {
    const { config, environment, clock, log, signal } = this.#inputs;
    return createModelKeeper({
      ...{ config, clock, log, signal, store: this.#opened.store, runner: this.runner },
      tempDir: environment.tempDir,
      host: () => this.#state.host,
      hasMemory: () => this.#pressure.judgement()?.level === "Normal",
      onChange: () => {
        this.#observer.forgetModels();
        this.#state.session?.report();
      },
    });
  }

  /** This machine as its Host would say it now, whether or not there is one. */
  async describe(): Promise<Host> {
    const { config, clock } = this.#inputs;
    const seen = await this.#observer.observe();
    const host = this.#state.host ?? hostSchema.parse({ metadata: { name: config.hostName } });
    const { status = {} } = hostStatusBody(host, seen, new Date(clock.nowMs()).toISOString());
    return { ...host, status: { ...host.status, ...status } };
  }

  /** Resolves once the saved Host is on disk. */
  settled(): Promise<void> {
    return this.#opened.keptHost.settled();
  }

  /** Reads the machine and watches it from then on; a dry run reads it once. */
  #watchMachine(): void {
    const { config, environment, clock, log, signal } = this.#inputs;
    // Not awaited: listing the engines' devices takes longer than adopting engines. Until then no replica is admitted.
    this.#observer.observe().then(
      () => this.runner.enqueueAll(),
      (err: unknown) => log.error({ err }, "cannot read this machine"),
    );
    if (config.dryRun) return;
    void this.#pressure.start();
    if (config.platform !== "darwin") return;
    const hasEngines = (): boolean => this.runner.snapshot().some(({ pid }) => pid !== undefined);
    keepAwake({ path: environment.toolPath, hasEngines, clock, log, signal });
  }

  #takeHost(host: Host | undefined): void {
    this.#state.host = host;
    this.#opened.keptHost.save(host);
    if (host !== undefined) this.models.take(host);
    this.#opened.store.setQuota(quotaOf(host) ?? this.#inputs.config.disk.quota);
    this.#give();
    this.runner.enqueueAll();
  }

  /** On the address that engines are served on, which the Host allows. */
  #give(): void {
    const { offered, store } = this.#opened;
    const { contents } = store;
    offered.offerOn(addressOf(this.#address()), { contents, replicas: () => this.runner.snapshot() });
  }

  /** Connections from before a sleep, from an old address or over an old route lead nowhere: those of watches and downloads too. */
  #reconnect(): void {
    this.#state.session?.wake();
    this.#opened.store.reconnect();
  }

  /** The address that engines are served on, from what is known now. */
  #address(): AddressAnswer {
    const { host, routed } = this.#state;
    const inUse = this.runner.addressesInUse();
    const configured = this.#inputs.config.addresses;
    return chooseAddress(
      { configured, allowed: host?.spec.addresses, routed, inUse },
      this.#addressesUp.now(),
    );
  }

  #ownAddress(): string | undefined {
    return addressOf(this.#address()) ?? this.#state.routed;
  }

  /** DHCP or a VPN may come up after the agent. A re-created Host allows the addresses that running engines listen on. */
  #ownAddresses(): readonly string[] {
    const { addresses } = this.#inputs.config;
    if (addresses.length > 0) return addresses;
    const now = this.#ownAddress();
    return now === undefined ? [] : [now];
  }

  #memoryBudget(): number | undefined {
    return budgetOf(this.#state.host, this.#observer.latest());
  }
}

async function warnOfBackup(folder: string, run: RunCommand, log: Log): Promise<void> {
  if (await excludeFromBackup(run, folder)) return;
  log.warn({ folder }, "Time Machine backs up the models; exclude the folder in its settings");
}
