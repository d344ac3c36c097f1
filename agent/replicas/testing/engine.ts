/** The engine of the simulated host. */

import type { HealthRecord, RequestProof } from "../evidence/observed.ts";
import { judgeSuspicion, raiseSuspicion, type Suspicion } from "../evidence/suspicion.ts";
import { defaultTimings } from "../evidence/timings.ts";
import { noteWork, type Work } from "../evidence/work.ts";

export interface Engine {
  isHealthy: boolean;
  isHung: boolean;
  /** Answers its probes and decodes nothing. */
  isStuck: boolean;
  /** Fails all requests, and says so in its log. */
  isDegraded: boolean;
  /** Its gauges cannot be read. */
  isMute: boolean;
  /** Its gauges come from where it decodes: between two steps. */
  isTellingBetweenSteps: boolean;
  ignoresTerm: boolean;
  loadsUntil: number;
  hasEnded: boolean;
  /** When it was asked to stop, and until when; it is killed from then on. */
  stopping?: { readonly askedAt: number; readonly deadlineAt: number };
  isKilled: boolean;
  leavesChildren: boolean;
  /** It exited because it cannot load its weights. */
  isRefusing: boolean;
}

/** No engine can load weights of an even number. */
export function newEngine(now: number, weights: number): Engine {
  const isRefusing = weights % 2 === 0;
  return {
    isHealthy: false,
    isHung: false,
    isStuck: false,
    isDegraded: false,
    isMute: false,
    isTellingBetweenSteps: false,
    ignoresTerm: false,
    loadsUntil: now + 700,
    hasEnded: isRefusing,
    isKilled: false,
    leavesChildren: false,
    isRefusing,
  };
}

/** How its instance carries out what was asked: a first TERM is ignored while it works, a second by stubborn engines only. */
export function stepEnd(engine: Engine, isBusy: boolean, now: number): void {
  const { stopping } = engine;
  if (stopping !== undefined) {
    const { askedAt, deadlineAt } = stopping;
    const secondAt = askedAt + (deadlineAt - askedAt) / 3;
    const obeysAt = engine.ignoresTerm ? deadlineAt : isBusy ? secondAt : askedAt;
    if (now >= obeysAt) engine.hasEnded = true;
  }
  if (engine.isKilled) engine.hasEnded = true;
  if (engine.hasEnded && (engine.isKilled || stopping !== undefined)) engine.leavesChildren = false;
}

export function probeEngine(
  engine: Engine | undefined,
  before: HealthRecord,
  wasReady: boolean,
  now: number,
): HealthRecord {
  const isHealthy = engine !== undefined && !engine.isHung && now >= engine.loadsUntil;
  if (isHealthy) {
    engine.isHealthy = true;
    return { lastProbeAt: now, failuresInARow: 0, healthyAt: before.healthyAt ?? now };
  }
  const wasHealthy = before.healthyAt !== undefined || wasReady;
  return { ...before, lastProbeAt: now, failuresInARow: wasHealthy ? before.failuresInARow + 1 : 0 };
}

export function askEngine(engine: Engine | undefined, before: RequestProof, now: number): RequestProof {
  if (engine?.isHealthy === true && !engine.isHung && !engine.isDegraded) return { at: "ok" };
  const tries = before.at === "failed" ? before.tries + 1 : 1;
  return { at: "failed", tries, lastAt: now, message: "500" };
}

/** Gauges and log, read with a live probe: a clock stands for the counters of an engine that gets on. */
export function watchProcess(
  engine: Engine | undefined,
  before: { readonly work: Work; readonly suspicion: Suspicion },
  isBusy: boolean,
  now: number,
): { readonly work: Work; readonly suspicion: Suspicion } {
  const isRead = engine?.isHealthy === true && !engine.isHung && !engine.isMute;
  const at = engine?.isStuck === true ? (before.work.last?.decodeTotal ?? 0) : now;
  const gauges = { inFlight: isBusy ? 1 : 0, decodeTotal: at, tokensTotal: 0 };
  const isOpen = engine?.isStuck === true && engine.isTellingBetweenSteps;
  const reading = isRead ? (isOpen ? "open" : gauges) : "unknown";
  const line = engine?.isDegraded === true ? "failed to decode, ret = -3" : undefined;
  return {
    work: noteWork(before.work, reading, now, defaultTimings.stallGapMs),
    suspicion: raiseSuspicion(before.suspicion, line, now, defaultTimings.proveAgainMs),
  };
}

export function askEngineAgain(engine: Engine | undefined, before: Suspicion, now: number): Suspicion {
  if (engine?.isHealthy !== true || engine.isHung || engine.isStuck)
    return judgeSuspicion(before, "unclear", now);
  return judgeSuspicion(before, engine.isDegraded ? { failed: "HTTP 500: Compute error" } : "ok", now);
}
