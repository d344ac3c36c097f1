/** Runs every replica of this host: one queue per uid, each pass observe → plan → apply. */
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { createQueue, type Queue, type Recheck } from "../../src/kube/queue.ts";
import type { Observed } from "../../src/replica/observed.ts";
import { planReplica } from "../../src/replica/plan.ts";
import { defaultTimings } from "../../src/replica/timings.ts";
import { createAdmission } from "./admission.ts";
import { adoptAll, openState } from "./adopt.ts";
import { applySteps } from "./apply.ts";
import type { RunnerContext } from "./context.ts";
import { describePlan, snapshotOf } from "./describe.ts";
import { endEngines } from "./end-engines.ts";
import { openDesiredFiles } from "./files/desired-files.ts";
import { createHostCounts } from "./metrics/counts.ts";
import { readEngines } from "./metrics/engine-gauges.ts";
import { observe, wantedOf } from "./observe.ts";
import type { ReplicaRunner, ReplicaRunnerPorts } from "./ports.ts";
import { availableFor, evict, governed, readmit } from "./pressure.ts";
import { newerOf } from "./report/newest.ts";
import { report } from "./report/report.ts";
import { createRuntimes } from "./runtimes.ts";
import { forgetPause, type ReplicaState, refOf } from "./state.ts";

/** Plans that may follow one another at once, before other keys get their turn. */
const ROUNDS = 12;
const SOON_MS = 50;
const CONCURRENCY = 64;
const API_WRITES = ["announce", "withdraw", "status", "finalizer"];

/** Starts nothing by itself: `adopt` comes first, then what the watch shows. */
export function createReplicaRunner(ports: ReplicaRunnerPorts): ReplicaRunner {
  return new Runner(ports);
}

class Runner implements ReplicaRunner {
  readonly #context: RunnerContext;
  readonly #queue: Queue<string>;
  readonly #end = new AbortController();
  readonly #passes = new Set<Promise<unknown>>();
  #wasListed = false;
  #agentEnds: Observed["agentEnds"];

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
      admission: createAdmission({
        budget: ports.memoryBudget,
        available: (uid) => availableFor(uid, this.#context),
        address: ports.address,
        portRange: ports.portRange,
        onFreed: () => this.#enqueueWaiting(),
      }),
      runtimes: createRuntimes({ drivers: ports.drivers, clock, log }),
      desiredFiles: openDesiredFiles(ports.stateDir, log, ports.isDryRun),
      counts: createHostCounts(),
      states: new Map(),
      wasListed: () => this.#wasListed,
      agentEnds: () => this.#agentEnds,
      enqueue: (uid) => this.enqueue(uid),
      moment: () => ({ wallMs: clock.nowMs(), monotonicMs: clock.monotonicMs() }),
      random: ports.random ?? Math.random,
    };
  }

  async adopt(): Promise<void> {
    // Asked beside the adoption, so that the first start does not wait for it.
    for (const runtime of this.#context.ports.drivers.keys()) void this.#context.runtimes.detect(runtime);
    await adoptAll(this.#context);
    this.enqueueAll();
  }

  setDesired(uid: string, replica: InferenceReplica | undefined): void {
    const known = this.#context.states.get(uid);
    if (replica === undefined) {
      if (known === undefined) return;
      known.isGone = true;
      known.jobs.cancel("fetch");
      this.enqueue(uid);
      return;
    }
    const state = known ?? openState(uid, this.#context);
    this.#take(state, state.isSeen ? newerOf(state.desired, replica) : replica);
    this.enqueue(uid);
  }

  /** Older than what was known, where etcd was put back or our own last write is still on its way through the watch. */
  listed(replicas: readonly InferenceReplica[]): void {
    const { states } = this.#context;
    const there = new Map(replicas.map((replica) => [replica.metadata.uid ?? "", replica]));
    this.#wasListed = true;
    for (const [uid, state] of states) if (!there.has(uid)) state.isGone = true;
    for (const [uid, replica] of there) this.#take(states.get(uid) ?? openState(uid, this.#context), replica);
    // The API server answers: writes that failed on its absence need not sit out their waits.
    for (const { jobs } of states.values()) jobs.forgive(API_WRITES);
    this.enqueueAll();
  }

  enqueue(uid: string): void {
    if (this.#context.ports.isDryRun === true || !this.#context.states.has(uid)) return;
    this.#queue.enqueue(uid);
  }

  enqueueNamed(key: string): void {
    for (const [uid, state] of this.#context.states) {
      const ref = refOf(state);
      if (ref !== undefined && `${ref.namespace}/${ref.name}` === key) this.enqueue(uid);
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
    return [...this.#context.states.values()].map(snapshotOf);
  }

  hasLookedAtAll(): boolean {
    return [...this.#context.states.values()].every(({ plan }) => plan !== undefined);
  }

  counts(): ReturnType<ReplicaRunner["counts"]> {
    return this.#context.counts;
  }

  readEngines(timeoutMs: number): ReturnType<ReplicaRunner["readEngines"]> {
    return readEngines(this.#context, timeoutMs);
  }

  governed(): ReturnType<ReplicaRunner["governed"]> {
    return governed(this.#context);
  }

  evict(uid: string, how: "evict" | "unload", because: string): void {
    const state = this.#context.states.get(uid);
    if (state === undefined) return;
    evict(state, this.#context, how, because);
    this.enqueue(uid);
  }

  readmit(uid: string): void {
    const state = this.#context.states.get(uid);
    if (state === undefined) return;
    readmit(state);
    this.enqueue(uid);
  }

  claimedBytes(): number {
    return this.#context.admission.totalBytes();
  }

  async describePlans(): Promise<string> {
    const texts = [...this.#context.states.values()].map(async (state) => {
      const { observed, plan } = await this.#plan(state);
      return describePlan(state, observed, plan);
    });
    return (await Promise.all(texts)).join("\n");
  }

  endEngines(atOnce: AbortSignal): Promise<void> {
    return endEngines(this.#context, atOnce, (how) => {
      this.#agentEnds = how;
      this.enqueueAll();
    });
  }

  async stop(): Promise<void> {
    this.#end.abort();
    await Promise.allSettled(this.#passes);
    await this.#context.desiredFiles.settled();
    for (const state of this.#context.states.values()) state.process?.close();
  }

  #take(state: ReplicaState, replica: InferenceReplica): void {
    state.desired = replica;
    state.isSeen = true;
    state.isGone = false;
    if (this.#context.ports.isDryRun !== true) this.#context.desiredFiles.save(state.uid, replica);
  }

  async #pass(uid: string): Promise<Recheck | undefined> {
    for (let round = 0; round < ROUNDS; round++) {
      const state = this.#context.states.get(uid);
      if (state === undefined || this.#end.signal.aborted) return undefined;
      const { observed, plan } = await this.#plan(state);
      if (this.#end.signal.aborted) return undefined;
      state.plan = plan;
      state.observed = observed;
      const isChanged = await applySteps(plan.steps, state, this.#context);
      if (isChanged) continue;
      report(state, plan, observed, this.#context);
      return { recheckAfterMs: plan.recheckAfterMs };
    }
    return { recheckAfterMs: SOON_MS };
  }

  async #plan(state: ReplicaState) {
    const { timings, ports } = this.#context;
    const observed = await observe(state, this.#context);
    const plan = planReplica(wantedOf(state, this.#context), observed, ports.clock.monotonicMs(), timings);
    return { observed, plan };
  }

  #track<T>(pass: Promise<T>): Promise<T> {
    this.#passes.add(pass);
    void pass.finally(() => this.#passes.delete(pass)).catch(() => undefined);
    return pass;
  }

  /** Memory came back: whoever waits looks again. */
  #enqueueWaiting(): void {
    for (const [uid, { plan }] of this.#context.states) if (plan?.phase === "Waiting") this.enqueue(uid);
  }
}
