/** Runs every replica of this host: one queue per uid, each pass observe → plan → apply. */

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { keyOf } from "../../src/api/names.ts";
import { createQueue, type Queue, type Recheck } from "../../src/kube/queue.ts";
import { hasRecord } from "../../src/supervise/run-directory.ts";
import { ENGINES_FOLDER } from "../instances/instances.ts";
import { applyReplicaSteps } from "./apply.ts";
import { createMemoryAdmission } from "./context/admission.ts";
import type { RunnerContext } from "./context/context.ts";
import type { BenchmarkMisfit, ReplicaCluster, ReplicaRunner, ReplicaRunnerPorts } from "./context/ports.ts";
import { createRuntimes } from "./context/runtimes.ts";
import { describePlan, snapshotOf } from "./describe.ts";
import type { ObservedReplica } from "./evidence/observed.ts";
import { defaultTimings } from "./evidence/timings.ts";
import { desiredStateOf, observeReplica } from "./observe.ts";
import { planReplica } from "./plan.ts";
import { adoptAll, openState } from "./prepare/adopt.ts";
import { noteDamage } from "./prepare/fetch.ts";
import { availableFor, clearEviction, evict, governedEngines } from "./pressure.ts";
import { refreshFromDisk } from "./refresh.ts";
import { report } from "./report/report.ts";
import { readEngines } from "./serve/gauges.ts";
import { createHostCounts } from "./state/counts.ts";
import { openDesiredFiles } from "./state/desired-files.ts";
import { livePerformanceOf } from "./state/live-load.ts";
import { forgetPause, runOf } from "./state/run.ts";
import { whenRecordWritten } from "./state/save-record.ts";
import {
  markDeleted,
  newerOf,
  type ReplicaState,
  refOf,
  replicaOf,
  setDesiredObject,
  setPublished,
} from "./state/state.ts";
import { stopAllEngines } from "./stop/end-engines.ts";

/** Maximum number of plans in a row for one key before other keys get their turn. */
const MAX_ROUNDS = 12;
const SOON_MS = 50;
const CONCURRENCY = 64;
/** Owner of the benchmark's reservation. */
const BENCHMARK = "benchmark";
const API_WRITES = ["announce", "withdraw", "status", "finalizer"];

/** Creation starts nothing: call `adopt` first, then report what the watch shows. */
export function createReplicaRunner(ports: ReplicaRunnerPorts): ReplicaRunner {
  return new Runner(ports);
}

class Runner implements ReplicaRunner {
  readonly #context: RunnerContext;
  readonly #queue: Queue<string>;
  readonly #end = new AbortController();
  readonly #passes = new Set<Promise<unknown>>();
  #cluster: ReplicaCluster | undefined;
  #wasListed = false;
  /** Until engines are adopted nothing is planned, and therefore nothing is applied. */
  #isSupervising = false;
  #agentStop: ObservedReplica["agentStop"];
  #onChange = (): void => {};

  constructor(ports: ReplicaRunnerPorts) {
    const { clock, log } = ports;
    const signal = this.#end.signal;
    const reconcile = (uid: string): Promise<Recheck | undefined> => this.#track(this.#pass(uid));
    this.#queue = createQueue({ reconcile, clock, log, signal, concurrency: CONCURRENCY });
    this.#context = {
      ports,
      log,
      signal,
      timings: { ...defaultTimings, ...ports.timings },
      admission: createMemoryAdmission({
        budget: () => {
          const bytes = ports.memoryBudget();
          return bytes === "unread" ? undefined : bytes;
        },
        unclaimed: ports.unclaimedBytes,
        available: (uid) => availableFor(uid, this.#context),
        address: () => this.#context.address(),
        portRange: ports.portRange,
        onFreed: () => this.#enqueueWaiting(),
      }),
      runtimes: createRuntimes({ drivers: ports.drivers, clock, log }),
      desiredFiles: openDesiredFiles(ports.stateDir, log),
      counts: createHostCounts(),
      states: new Map(),
      cluster: () => this.#cluster,
      address: () => ports.address(this.addressesInUse()),
      wasListed: () => this.#wasListed,
      agentStop: () => this.#agentStop,
      enqueue: (uid) => this.enqueue(uid),
      moment: () => ({ wallMs: clock.nowMs(), monotonicMs: clock.monotonicMs() }),
      random: ports.random ?? Math.random,
    };
  }

  async adopt(): Promise<void> {
    // Detected concurrently with the adoption, so that the first start does not wait for it.
    const { runtimes, ports, desiredFiles } = this.#context;
    for (const runtime of ports.drivers.keys()) void runtimes.detect(runtime);
    mkdirSync(join(ports.stateDir, ENGINES_FOLDER), { recursive: true, mode: 0o700 });
    desiredFiles.open();
    await adoptAll(this.#context);
    this.#isSupervising = true;
    this.enqueueAll();
  }

  connect(cluster: ReplicaCluster): void {
    this.#cluster = cluster;
    // These jobs failed for lack of a connection: their backoff must not outlast the outage.
    for (const { jobs } of this.#context.states.values()) jobs.clearBackoff(API_WRITES);
    this.enqueueAll();
  }

  setDesired(uid: string, replica: InferenceReplica | undefined): void {
    const known = this.#context.states.get(uid);
    if (replica === undefined) {
      if (known === undefined) return;
      markDeleted(known);
      known.jobs.cancel("fetch");
      this.enqueue(uid);
      return;
    }
    const state = known ?? openState(uid, this.#context);
    this.#accept(state, state.desired.at === "cached" ? replica : newerOf(replicaOf(state), replica));
    // Before the first plan, so that a benchmark gives up its memory before the replica needs it.
    if (known === undefined) this.#onChange();
    this.enqueue(uid);
  }

  /** The list may be older than the known objects: etcd was restored, or our own last write has not reached the watch yet. */
  listed(replicas: readonly InferenceReplica[]): void {
    const { states, desiredFiles } = this.#context;
    this.#noteListed(replicas);
    for (const replica of replicas) desiredFiles.save(replica.metadata.uid ?? "", replica);
    // The API server answers: writes that failed during its outage need not wait out their backoff.
    for (const { jobs } of states.values()) jobs.clearBackoff(API_WRITES);
    this.#onChange();
    this.enqueueAll();
  }

  /** Changes only memory. */
  #noteListed(replicas: readonly InferenceReplica[]): void {
    const { states } = this.#context;
    const listed = new Map(replicas.map((replica) => [replica.metadata.uid ?? "", replica]));
    this.#wasListed = true;
    for (const [uid, state] of states) if (!listed.has(uid)) markDeleted(state);
    for (const [uid, replica] of listed) {
      const state = states.get(uid) ?? openState(uid, this.#context);
      setDesiredObject(state, "current", replica, this.#context.moment());
    }
  }

  enqueue(uid: string): void {
    if (!this.#isSupervising || !this.#context.states.has(uid)) return;
    this.#queue.enqueue(uid);
  }

  sliceChanged(key: string): void {
    for (const [uid, state] of this.#context.states) {
      const ref = refOf(state);
      if (ref === undefined || keyOf(ref) !== key) continue;
      // The announcement may be accepted now: the addresses that the slice allows are part of the slice.
      state.jobs.clearBackoff(["announce"]);
      this.enqueue(uid);
    }
  }

  enqueueAll(): void {
    for (const uid of this.#context.states.keys()) this.enqueue(uid);
  }

  wake({ countedMs }: { readonly countedMs: number }): void {
    this.#wasListed = false;
    for (const state of this.#context.states.values()) forgetPause(state, countedMs);
    this.enqueueAll();
  }

  snapshot(): ReturnType<ReplicaRunner["snapshot"]> {
    const { states, ports, timings } = this.#context;
    const now = ports.clock.monotonicMs();
    return [...states.values()].map((state) =>
      snapshotOf(state, livePerformanceOf(state, now, timings.performanceWindowMs)),
    );
  }

  knowsAllEngines(): boolean {
    return [...this.#context.states.values()].every(
      ({ engine, dir }) => engine.at !== "unreadable" && (engine.at !== "none" || !hasRecord(dir)),
    );
  }

  hasInspectedAll(): boolean {
    return [...this.#context.states.values()].every(({ published }) => published.plan !== undefined);
  }

  counts(): ReturnType<ReplicaRunner["counts"]> {
    return this.#context.counts;
  }

  readEngines(timeoutMs: number): ReturnType<ReplicaRunner["readEngines"]> {
    return readEngines(this.#context, timeoutMs);
  }

  governed(): ReturnType<ReplicaRunner["governed"]> {
    return governedEngines(this.#context);
  }

  evict(uid: string, how: "evict" | "unload", because: string): void {
    const state = this.#context.states.get(uid);
    if (state === undefined) return;
    evict(state, this.#context, how, because);
    this.enqueue(uid);
  }

  memoryRead(): void {
    for (const [uid, { published }] of this.#context.states)
      if (published.plan?.reason === "InsufficientMemory") this.enqueue(uid);
  }

  weightsDamaged(sha256: string, note: string): void {
    for (const state of this.#context.states.values())
      if (noteDamage(state, this.#context, sha256, note)) this.enqueue(state.uid);
  }

  readmit(uid: string): void {
    const state = this.#context.states.get(uid);
    if (state === undefined) return;
    clearEviction(state);
    this.enqueue(uid);
  }

  claimedBytes(): number {
    return this.#context.admission.totalBytes();
  }

  watch(onChange: () => void): void {
    this.#onChange = onChange;
  }

  reserveBenchmark(claimBytes: number): "reserved" | BenchmarkMisfit {
    const { admission, ports } = this.#context;
    const budget = ports.memoryBudget();
    const budgetBytes = budget === "unread" ? undefined : budget;
    const claimedBytes = admission.othersBytes(BENCHMARK);
    const availableBytes = ports.memory?.latest()?.availableBytes;
    const fits =
      claimedBytes + claimBytes <= (budgetBytes ?? 0) && claimBytes <= (availableBytes ?? claimBytes);
    if (!fits) return { budgetBytes, claimedBytes, availableBytes };
    // It serves on no port.
    admission.adopt(BENCHMARK, { claimBytes, port: 0 });
    return "reserved";
  }

  releaseBenchmark(): void {
    this.#context.admission.forget(BENCHMARK);
  }

  addressesInUse(): readonly string[] {
    return [...this.#context.states.values()].flatMap((state) => {
      const run = runOf(state);
      const at = run?.instance.state().at;
      const address = at === "starting" || at === "running" ? run?.file.address : undefined;
      return address ? [address] : [];
    });
  }

  async inspect(replicas: readonly InferenceReplica[]): Promise<void> {
    await adoptAll(this.#context);
    this.#noteListed(replicas);
  }

  async describePlans(): Promise<string> {
    const texts = [...this.#context.states.values()].map(async (state) => {
      const { observed, plan } = await this.#plan(state);
      return describePlan(state, observed, plan);
    });
    return (await Promise.all(texts)).join("\n");
  }

  endEngines(atOnce: AbortSignal): Promise<void> {
    return stopAllEngines(this.#context, atOnce, (how) => {
      this.#agentStop = how;
      this.enqueueAll();
    });
  }

  async stop(): Promise<void> {
    this.#end.abort();
    await Promise.allSettled(this.#passes);
    await Promise.all([...this.#context.states.values()].map(whenRecordWritten));
    await this.#context.desiredFiles.settled();
    for (const state of this.#context.states.values()) runOf(state)?.instance.close();
  }

  #accept(state: ReplicaState, replica: InferenceReplica): void {
    setDesiredObject(state, "current", replica, this.#context.moment());
    this.#context.desiredFiles.save(state.uid, replica);
  }

  async #pass(uid: string): Promise<Recheck | undefined> {
    for (let round = 0; round < MAX_ROUNDS; round++) {
      const state = this.#context.states.get(uid);
      if (state === undefined || this.#end.signal.aborted) return undefined;
      const { observed, plan } = await this.#plan(state);
      if (this.#end.signal.aborted) return undefined;
      const phaseBefore = state.published.plan?.phase;
      setPublished(state, { plan, observed });
      if (plan.phase !== phaseBefore) this.#onChange();
      const isChanged = await applyReplicaSteps(plan.steps, state, this.#context);
      if (isChanged) continue;
      report(state, plan, observed, this.#context);
      return { recheckAfterMs: plan.recheckAfterMs };
    }
    return { recheckAfterMs: SOON_MS };
  }

  async #plan(state: ReplicaState) {
    const { timings, ports } = this.#context;
    await refreshFromDisk(state, this.#context);
    const observed = observeReplica(state, this.#context);
    const desired = desiredStateOf(state, this.#context);
    return { observed, plan: planReplica(desired, observed, ports.clock.monotonicMs(), timings) };
  }

  #track<T>(pass: Promise<T>): Promise<T> {
    this.#passes.add(pass);
    void pass.finally(() => this.#passes.delete(pass)).catch(() => undefined);
    return pass;
  }

  /** Memory was freed: plans waiting replicas again. */
  #enqueueWaiting(): void {
    for (const [uid, { published }] of this.#context.states)
      if (published.plan?.phase === "Waiting") this.enqueue(uid);
  }
}
