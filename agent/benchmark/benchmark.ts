/** Carries out the benchmark that the controller orders in the Host's status, and reports its state. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type BenchmarkOrder, type BenchmarkState, measurementSchema } from "../../src/api/benchmark.ts";
import { describeError, type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
import type { Runtime } from "../../src/api/fields/runtimes.ts";
import type { Host } from "../../src/api/host.ts";
import { renderMeasurement } from "../../src/capacity/benchmark/measurement.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { removeRun } from "../../src/supervise/run-directory.ts";
import { parseJson } from "../../src/util/parse-json.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { truncate } from "../../src/util/text.ts";
import type { AgentConfig } from "../config/schema.ts";
import type { EngineBench, EngineDriver } from "../engines/driver/engine.ts";
import type { SpeedConditions } from "../host/conditions.ts";
import type { ProcessInstances } from "../instances/process/process-instance.ts";
import type { PressureLevel } from "../pressure/governor/types.ts";
import type { ReplicaRunner } from "../replicas/context/ports.ts";
import { requestFor } from "../replicas/prepare/fetch.ts";
import type { ModelStore } from "../store/types.ts";
import { RETRYABLE } from "../store/volume.ts";
import { measure } from "./measure.ts";
import { type BenchmarkFacts, isAbout, isFinished, planBenchmark } from "./plan.ts";
import { fetchWeights, KEEPS_USE, OWNER, reserveMemory } from "./weights.ts";

export interface HostBenchmarkOptions {
  readonly config: Pick<AgentConfig, "stateDir" | "benchmark" | "platform">;
  readonly store: Pick<ModelStore, "resolve" | "fetch" | "inspect" | "release" | "disk" | "evictFirst">;
  readonly runner: Pick<
    ReplicaRunner,
    "watch" | "snapshot" | "reserveBenchmark" | "releaseBenchmark" | "memoryRead"
  >;
  readonly drivers: ReadonlyMap<Runtime, EngineDriver>;
  readonly processes: ProcessInstances;
  /** Undefined until budget and memory of this host were read. */
  readonly memoryLevel: () => PressureLevel | undefined;
  /** Reads the memory of this host again. */
  readonly readMemory: () => Promise<unknown>;
  readonly readConditions: () => Promise<SpeedConditions>;
  /** The replicas of this host are known. */
  readonly isSynced: () => boolean;
  /** Sources that prefetches are downloading. */
  readonly downloads: () => readonly string[];
  /** Called when the state has changed and the Host's status must be updated soon. */
  readonly onChange: () => void;
  readonly clock: Clock;
  readonly log: Log;
}

export interface HostBenchmark {
  /** Kills the program that a former agent has left. Nothing is measured before. */
  readonly begin: () => Promise<void>;
  readonly connect: (client: KubeClient) => void;
  /** Must be called whenever the Host has changed. */
  readonly take: (host: Host) => void;
  /** Must be called when a prefetch has changed. */
  readonly changed: () => void;
  readonly state: () => BenchmarkState | undefined;
  readonly isRunning: () => boolean;
  /** Kills a running program. Resolves once it is gone, or after 2 s. */
  readonly stop: () => Promise<void>;
}

interface Job {
  readonly kind: "inspect" | "fetch" | "run";
  readonly end: AbortController;
}

const FOLDER = "benchmark";
const MAX_FAILED_FETCHES = 3;
const RETRY_MS = 60_000;
const STOP_MS = 2_000;
const RUNNING_MS = 5_000;
const MESSAGE_MAX = 512;

export function createHostBenchmark(options: HostBenchmarkOptions): HostBenchmark {
  const benchmark = new Benchmark(options);
  options.runner.watch(() => benchmark.changed());
  return benchmark;
}

class Benchmark implements HostBenchmark {
  readonly #options: HostBenchmarkOptions;
  readonly #dir: string;
  #client: KubeClient | undefined;
  #order: BenchmarkOrder | undefined;
  #state: BenchmarkState | undefined;
  #job: Job | undefined;
  /** Settled once the process of the last job is gone. */
  #ended: Promise<void> = Promise.resolve();
  #inspected: BenchmarkFacts["inspected"];
  #busyAt: number;
  #failures = 0;
  #retry: BenchmarkFacts["retry"];
  #isStopped = false;
  #cancel = (): void => {};

  constructor(options: HostBenchmarkOptions) {
    this.#options = options;
    this.#dir = join(options.config.stateDir, FOLDER);
    this.#busyAt = options.clock.monotonicMs();
  }

  begin(): Promise<void> {
    this.#ended = this.#killLeftover().catch((err: unknown) =>
      this.#options.log.error({ err }, "cannot read whether a benchmark of the former agent runs"),
    );
    return this.#ended;
  }

  connect(client: KubeClient): void {
    this.#client = client;
  }

  take({ status }: Host): void {
    const { order, state } = status?.benchmark ?? {};
    if (JSON.stringify(order) !== JSON.stringify(this.#order)) {
      this.#stopJob();
      this.#order = order;
      this.#failures = 0;
      this.#retry = undefined;
    }
    // The former agent has finished this order.
    const isKept = order !== undefined && state !== undefined && isAbout(state, order) && isFinished(state);
    if (isKept && this.#state === undefined) this.#state = state;
    this.#pass();
  }

  changed(): void {
    this.#busyAt = this.#options.clock.monotonicMs();
    if (this.#order !== undefined) this.#pass();
  }

  state(): BenchmarkState | undefined {
    return this.#state;
  }

  isRunning(): boolean {
    return this.#job?.kind === "run";
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#cancel();
    this.#stopJob();
    // The next agent kills what is left.
    const waiting = new AbortController();
    await Promise.race([this.#ended, waitMs(this.#options.clock, STOP_MS, waiting.signal)]);
    waiting.abort();
  }

  async #killLeftover(): Promise<void> {
    mkdirSync(this.#dir, { recursive: true, mode: 0o700 });
    const { processes, log } = this.#options;
    let onChange = (): void => {};
    const place = { dir: this.#dir, log, onChange: () => onChange() };
    const left = await processes.adopt(place, { host: "127.0.0.1", port: 0 });
    if (left === undefined) return;
    if (left.state().at !== "gone") {
      log.warn({ dir: this.#dir }, "killing the benchmark that the former agent has left");
      left.killNow();
      await new Promise<void>((resolve) => {
        onChange = () => {
          if (left.state().at === "gone") resolve();
        };
        onChange();
      });
    }
    left.close();
    removeRun(this.#dir);
  }

  /** Synchronous up to the signal, because the memory of a replica must be free before its first plan. */
  #pass(): void {
    if (this.#isStopped) return;
    this.#cancel();
    const plan = planBenchmark(this.#facts());
    this.#inspected = undefined;
    switch (plan.do) {
      case "nothing":
        // Memory pressure is noticed while the program runs.
        if (this.isRunning()) this.#passIn(RUNNING_MS);
        return;
      case "clear":
        this.#stopJob();
        this.#setState(undefined);
        return;
      case "wait":
        this.#stopJob(plan.message);
        this.#report("Waiting", plan);
        if (plan.recheckAfterMs !== undefined) this.#passIn(plan.recheckAfterMs);
        return;
      case "fail":
        this.#stopJob(plan.message);
        this.#report("Failed", plan);
        return;
      default:
        this.#start(plan.do);
    }
  }

  #passIn(delayMs: number): void {
    this.#cancel = this.#options.clock.after(delayMs, () => this.#pass());
  }

  #facts(): BenchmarkFacts {
    const { config, runner, isSynced, downloads, memoryLevel, clock } = this.#options;
    const { enabled: isEnabled, idleMs } = config.benchmark;
    return {
      isEnabled,
      idleMs,
      order: this.#order,
      state: this.#state,
      job: this.#job?.kind,
      isSynced: isSynced(),
      replicas: runner.snapshot(),
      downloads: downloads(),
      memory: memoryLevel(),
      busyAt: this.#busyAt,
      retry: this.#retry,
      now: clock.monotonicMs(),
      inspected: this.#inspected,
    };
  }

  #start(kind: Job["kind"]): void {
    const order = this.#order;
    if (order === undefined) return;
    const job = { kind, end: new AbortController() };
    this.#job = job;
    if (kind === "run") this.#passIn(RUNNING_MS);
    if (kind === "run") this.#report("Running", { message: "the benchmark is running" });
    if (kind === "fetch") this.#report("Waiting", { message: "downloading the weights" });
    const former = this.#ended;
    const steps = {
      inspect: () => this.#inspect(order),
      fetch: () => this.#fetch(order, job),
      run: () => this.#run(order, job),
    };
    this.#ended = former
      .then(() => (job.end.signal.aborted ? undefined : steps[kind]()))
      .then(
        () => this.#finish(job),
        (error: unknown) => this.#noteFailure(job, error),
      );
  }

  #finish(job: Job): void {
    if (this.#job !== job) return;
    this.#job = undefined;
    this.#pass();
  }

  #noteFailure(job: Job, error: unknown): void {
    if (this.#job !== job) return;
    this.#job = undefined;
    const { log } = this.#options;
    const isKnown = error instanceof MetalbridgeError;
    if (!isKnown) log.error({ err: error }, "the benchmark ended unexpectedly");
    const reason = isKnown ? error.code : "BenchmarkFailed";
    const message = isKnown ? describeError(error) : String(error);
    this.#failures += 1;
    if (job.kind === "fetch" && RETRYABLE.has(reason) && this.#failures < MAX_FAILED_FETCHES) {
      this.#retry = { at: this.#options.clock.monotonicMs() + RETRY_MS, reason, message };
      this.#pass();
      return;
    }
    log.warn({ code: reason, key: this.#order?.key }, message);
    this.#report("Failed", { reason, message });
  }

  #stopJob(because?: string): void {
    const job = this.#job;
    if (job === undefined) return;
    this.#job = undefined;
    if (job.kind === "run") this.#options.log.info({ because }, "stopping the benchmark");
    job.end.abort();
    this.#options.runner.releaseBenchmark();
  }

  async #inspect(order: BenchmarkOrder): Promise<void> {
    const { store, readConditions } = this.#options;
    const { bench } = this.#driverOf(order);
    const { model, namespace } = order;
    const request = requestFor(model, namespace);
    const [conditions, stored] = await Promise.all([
      readConditions(),
      store.resolve(request, undefined, KEEPS_USE),
    ]);
    await bench.find(stored?.files ?? model.files.map((name) => ({ name })));
    this.#inspected = { ...conditions, isStored: stored !== undefined };
  }

  async #fetch(order: BenchmarkOrder, { end }: Job): Promise<void> {
    const { store, log } = this.#options;
    try {
      await fetchWeights(order, store, this.#client, end.signal);
      await store
        .evictFirst(requestFor(order.model, order.namespace))
        .catch((err: unknown) => log.warn({ err }, "cannot mark the weights of the benchmark for eviction"));
    } finally {
      store.release(OWNER);
    }
  }

  async #run(order: BenchmarkOrder, { end }: Job): Promise<void> {
    const { store, runner, processes, readMemory, config, clock, log, readConditions } = this.#options;
    const { driver, bench } = this.#driverOf(order);
    const { signal } = end;
    try {
      const model = await store.resolve(requestFor(order.model, order.namespace), OWNER, KEEPS_USE);
      // It was evicted or removed since: the next plan downloads it again.
      if (model === undefined) return;
      const [program, facts, runtime] = await Promise.all([
        bench.find(model.files),
        store.inspect(model),
        driver.detect(),
      ]);
      signal.throwIfAborted();
      reserveMemory(order, facts, driver, runner);
      log.info({ key: order.key, source: order.model.source, program }, "benchmark started");
      const { platform } = config;
      const ports = { dir: this.#dir, processes, platform, clock, log, signal };
      const measured = await measure({ order, bench, program, model }, ports);
      const result = {
        ...measured,
        build: truncate(runtime?.version ?? "unknown", 128),
        thermal: (await readConditions()).thermal,
      };
      signal.throwIfAborted();
      log.info({ key: order.key, tokensPerSecond: result.generation.median }, "benchmark finished");
      const { key, build } = order;
      this.#setState({
        key,
        build,
        phase: "Done",
        result: measurementSchema.parse(parseJson(renderMeasurement(result))),
      });
    } finally {
      runner.releaseBenchmark();
      store.release(OWNER);
      // The last reading still counts the memory of the program.
      void readMemory().then(() => runner.memoryRead());
    }
  }

  #driverOf({ runtime }: BenchmarkOrder): { readonly driver: EngineDriver; readonly bench: EngineBench } {
    const driver = this.#options.drivers.get(runtime);
    const bench = driver?.bench;
    if (driver !== undefined && bench !== undefined) return { driver, bench };
    throw new MetalbridgeError("BenchmarkNotSupported", `runtime ${runtime} has no benchmark program`);
  }

  #report(
    phase: BenchmarkState["phase"],
    { reason, message }: { readonly reason?: ErrorCode; readonly message: string },
  ): void {
    if (this.#order === undefined) return;
    const { key, build } = this.#order;
    this.#setState({ key, build, phase, reason, message: truncate(message, MESSAGE_MAX) });
  }

  #setState(state: BenchmarkState | undefined): void {
    if (JSON.stringify(state) === JSON.stringify(this.#state)) return;
    this.#state = state;
    this.#options.onChange();
  }
}
