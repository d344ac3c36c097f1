/** A small host for property tests: one replica, its engine, its slice and time. It carries out plans and refuses wrong ones. */
import { isForced } from "../end/plan.ts";
import { noteSlice } from "../evidence/exposure.ts";
import type { DesiredState, ObservedReplica, SliceState, Stop } from "../evidence/observed.ts";
import { noteQuiet } from "../evidence/quiet.ts";
import { planReplica, type ReplicaStep } from "../plan.ts";
import type { ReplicaPlan } from "../state/step.ts";
import {
  askEngine,
  askEngineAgain,
  type Engine,
  newEngine,
  probeEngine,
  stepEnd,
  watchProcess,
} from "./engine.ts";
import { newRun, nothingKnown, SERVE } from "./facts.ts";
import { crashed, modelOf, observedAddress, runOf, runtimeOf, workOf } from "./host.ts";
import { checkBegin, checkDeadline, checkEnd, checkForced, checkPlan } from "./promises.ts";

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** Throws with a sentence when a plan breaks a promise. */
export class World {
  now = 1_000_000;
  wanted: DesiredState = SERVE;
  engine: Engine | undefined;
  nextEngine: Partial<Engine> = {};
  isApiUp = true;
  isListed = true;
  isSliceRead = true;
  hasAddress = true;
  /** Where the engine listens, seen from the host's address: gone, or up beside the new one. A new engine is at home again. */
  moved: "no" | "beside" | "cut off" = "no";
  budget: number | "unknown" = 1_000;
  pressure: ObservedReplica["pressure"] = { at: "none" };
  model: "there" | "missing" | "broken" = "there";
  /** Which file it is: no engine can load an even one. */
  weights = 1;
  runtime: "present" | "missing" = "present";
  isBusy = false;
  /** Grows with requests too short for any reading. */
  tokensTotal = 0;
  agentStop: ObservedReplica["agentStop"];
  slice: SliceState = "unwritten";
  starts = 0;
  #notBefore = 0;
  #facts: Mutable<ObservedReplica>;
  #wasWithdrawAsked = false;
  /** The last health probe since the agent's start or the machine's sleep. */
  #hasAnswered = false;
  /** Since when the slice really routes no requests, and when the present stop first saw that. */
  #outAt: number | undefined;
  #seenOutAt: number | undefined;

  constructor() {
    this.#facts = nothingKnown();
  }

  /** The agent dies and a new one adopts: only what is on disk or visible is left. */
  restartAgent(): void {
    const { record, crashes } = this.#facts;
    this.#facts = { ...nothingKnown(), crashes, ...(record === undefined ? {} : { record }) };
    if (this.engine !== undefined) {
      delete this.engine.stopping;
      this.engine.isKilled = false;
    }
    this.isListed = false;
    this.agentStop = undefined;
    this.isSliceRead = this.isApiUp;
    this.#wasWithdrawAsked = false;
    this.#hasAnswered = false;
  }

  /** The machine slept: old answers are no evidence. */
  wake(): void {
    const { lastProbeAt: _, ...health } = this.#facts.health;
    this.#facts.health = { ...health, failuresInARow: 0 };
    this.#facts.quiet = {};
    this.isListed = false;
    this.#hasAnswered = false;
  }

  /** Plans and acts until nothing changes any more; returns when to plan again. */
  settle(): ReplicaPlan {
    for (let round = 0; round < 30; round++) {
      const plan = planReplica(this.wanted, this.#observe(), this.now);
      checkPlan(plan);
      if (plan.phase === "Ready" && this.engine?.hasEnded !== false)
        throw new Error("Ready without a running engine");
      let isChanged = false;
      for (const step of plan.steps) if (this.#apply(step)) isChanged = true;
      if (!isChanged) {
        checkDeadline(this.#facts, this.#seenOutAt, this.now);
        return plan;
      }
    }
    throw new Error("the plan never settles: a step is asked for again and again without time passing");
  }

  crash(): void {
    if (this.engine !== undefined) this.engine.hasEnded = true;
  }

  #observe(): ObservedReplica {
    const { slice, record } = this.#facts;
    const state: SliceState = this.isSliceRead ? this.slice : "unknown";
    this.#facts.slice = noteSlice(slice, state, record?.readyAt !== undefined, this.now);
    this.#outAt = this.slice === "ready" ? undefined : (this.#outAt ?? this.now);
    this.#seenOutAt = record?.stop && (this.#seenOutAt ?? this.#facts.slice.withdrawnAt);
    if (this.engine !== undefined) stepEnd(this.engine, this.isBusy, this.now);
    this.#facts.run = runOf(this);
    this.#facts.model = modelOf(this, this.#facts.model);
    this.#facts.memory = { budgetBytes: this.budget, othersBytes: 0 };
    this.#facts.pressure = this.pressure;
    this.#facts.runtime = runtimeOf(this);
    Object.assign(this.#facts, observedAddress(this));
    this.#facts.wasListed = this.isListed;
    if (this.agentStop === undefined) delete this.#facts.agentStop;
    else this.#facts.agentStop = this.agentStop;
    return this.#facts;
  }

  #apply(step: ReplicaStep): boolean {
    const facts = this.#facts;
    switch (step.do) {
      case "fetch":
        facts.model = {
          at: "failed",
          code: "SourceUnreachable",
          message: "unreachable",
          transient: true,
          retryAt: this.now + 5_000,
        };
        return true;
      case "start":
        return this.#start();
      case "probeHealth":
        return this.#probe();
      case "probeRequest":
        facts.request = askEngine(this.engine, facts.request, this.now);
        return true;
      case "proveAgain":
        facts.suspicion = askEngineAgain(this.engine, facts.suspicion, this.now);
        return true;
      case "setEndpoint":
        return this.#announce();
      case "withdraw":
        return this.#withdraw();
      case "pollQuiet":
        facts.quiet = noteQuiet(facts.quiet, workOf(this), this.now);
        return true;
      case "stopBy":
      case "killNow":
        return this.#end(step);
      default:
        return this.#applyToRecord(step);
    }
  }

  #applyToRecord(step: ReplicaStep): boolean {
    const facts = this.#facts;
    const { record } = facts;
    switch (step.do) {
      case "markReady":
        if (record !== undefined) facts.record = { ...record, readyAt: this.now };
        return true;
      case "beginStop":
        return this.#beginStop(step);
      case "noteWithdrawn":
        return this.#noteWithdrawn(step.withdrawnAt);
      case "cancelStop":
        return this.#cancelStop();
      case "adjustClaim":
        if (record !== undefined) facts.record = { ...record, claimBytes: step.claimBytes };
        return true;
      case "recordExit":
        return this.#recordExit();
      case "forgetRun":
        return this.#forgetRun();
      case "removeFinalizer":
        return this.#removeFinalizer();
      default:
        return false;
    }
  }

  #beginStop({ do: _, because: __, ...asked }: Extract<ReplicaStep, { do: "beginStop" }>): boolean {
    const { record } = this.#facts;
    if (record === undefined) return false;
    if (isForced(asked.why)) checkForced(asked.why, this.engine);
    else checkBegin(record.stop, asked, this.wanted, this.#facts);
    const { startedAt = this.now, withdrawnAt } = record.stop ?? {};
    const stop: Stop = { ...asked, startedAt, ...(withdrawnAt === undefined ? {} : { withdrawnAt }) };
    this.#facts.record = { ...record, stop };
    return true;
  }

  #noteWithdrawn(withdrawnAt: number): boolean {
    const { record } = this.#facts;
    if (record?.stop === undefined) return false;
    this.#facts.record = { ...record, stop: { ...record.stop, withdrawnAt } };
    return true;
  }

  #cancelStop(): boolean {
    const { record } = this.#facts;
    if (record === undefined) return false;
    const { stop: _, ...kept } = record;
    this.#facts.record = kept;
    return true;
  }

  #forgetRun(): boolean {
    if (this.engine !== undefined && !(this.engine.hasEnded && !this.engine.leavesChildren)) {
      throw new Error("a run was forgotten while a process of it was running");
    }
    this.engine = undefined;
    this.#resetRun();
    return true;
  }

  #removeFinalizer(): boolean {
    if (this.engine !== undefined) throw new Error("the finalizer was removed while the engine was running");
    if (this.slice === "ready") throw new Error("the finalizer was removed while the endpoint is announced");
    if (!this.isApiUp) return false;
    if (typeof this.wanted !== "string") this.wanted = { ...this.wanted, hasFinalizer: false };
    return true;
  }

  #start(): boolean {
    if (this.engine !== undefined) throw new Error("two engines for one replica");
    if (this.now < this.#notBefore) throw new Error("restarted before its backoff had elapsed");
    this.starts += 1;
    this.#hasAnswered = false;
    this.moved = "no";
    this.engine = { ...newEngine(this.now, this.weights), ...this.nextEngine };
    this.#resetRun();
    this.#facts.record = {
      runId: `run-${this.starts}`,
      revision: "r1",
      port: 21_000,
      claimBytes: 100,
      startedAt: this.now,
      drainSeconds: 30,
    };
    return true;
  }

  #probe(): boolean {
    const facts = this.#facts;
    const wasReady = facts.record?.readyAt !== undefined;
    facts.health = probeEngine(this.engine, facts.health, wasReady, this.now);
    this.#hasAnswered = facts.health.failuresInARow === 0 && this.engine?.isHealthy === true;
    if (!wasReady) return true;
    Object.assign(facts, watchProcess(this.engine, facts, this.isBusy, this.now));
    return true;
  }

  #announce(): boolean {
    this.#facts.slice = { ...this.#facts.slice, wasExposed: true, mayArrive: true };
    if (!this.isListed) throw new Error("announced before the first list");
    if (!this.#hasAnswered) throw new Error("announced before it has answered this agent");
    if (this.engine?.isHealthy !== true) throw new Error("announced an engine that was never healthy");
    if (!this.isApiUp || this.slice === "missing") return false;
    this.slice = "ready";
    this.#facts.slice = { ...this.#facts.slice, mayArrive: false };
    this.#wasWithdrawAsked = false;
    return true;
  }

  #withdraw(): boolean {
    this.#wasWithdrawAsked = true;
    if (!this.isApiUp || this.slice === "missing" || this.slice === "withdrawn") return false;
    // An empty slice stays unchanged: it has nothing to withdraw.
    if (this.slice !== "unwritten") this.slice = "withdrawn";
    this.#facts.slice = { ...this.#facts.slice, mayArrive: false };
    return true;
  }

  #end(step: Extract<ReplicaStep, { do: "stopBy" | "killNow" }>): boolean {
    const { engine } = this;
    checkEnd(step.do, this.#facts, this.slice, {
      now: this.now,
      outAt: this.#outAt,
      isBusy: this.isBusy,
      wasWithdrawAsked: this.#wasWithdrawAsked,
    });
    if (engine === undefined) throw new Error("an end was asked of an engine that is not there");
    if (step.do === "killNow") engine.isKilled = true;
    else engine.stopping = { askedAt: this.now, deadlineAt: step.deadlineAt };
    return true;
  }

  #recordExit(): boolean {
    const { record, crashes } = this.#facts;
    if (record === undefined || crashes.recordedRunId === record.runId) return false;
    this.#facts.crashes = crashed(this.#facts, record.runId, this);
    this.#notBefore = this.#facts.crashes.backoffUntil ?? 0;
    return true;
  }

  #resetRun(): void {
    const { record: _, ...rest } = this.#facts;
    this.#facts = { ...rest, ...newRun(), slice: { state: this.slice, wasExposed: false, mayArrive: false } };
  }
}
