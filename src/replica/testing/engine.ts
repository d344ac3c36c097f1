/** The engine of the simulated host. */
import type { Health, RequestProof } from "../observed.ts";

export interface Engine {
  isHealthy: boolean;
  isHung: boolean;
  ignoresTerm: boolean;
  loadsUntil: number;
  hasEnded: boolean;
  leavesChildren: boolean;
}

export function newEngine(now: number): Engine {
  return {
    isHealthy: false,
    isHung: false,
    ignoresTerm: false,
    loadsUntil: now + 700,
    hasEnded: false,
    leavesChildren: false,
  };
}

export function probeEngine(
  engine: Engine | undefined,
  before: Health,
  wasReady: boolean,
  now: number,
): Health {
  const isHealthy = engine !== undefined && !engine.isHung && now >= engine.loadsUntil;
  if (isHealthy) {
    engine.isHealthy = true;
    return { lastProbeAt: now, failuresInARow: 0, healthyAt: before.healthyAt ?? now };
  }
  const wasHealthy = before.healthyAt !== undefined || wasReady;
  return { ...before, lastProbeAt: now, failuresInARow: wasHealthy ? before.failuresInARow + 1 : 0 };
}

export function askEngine(engine: Engine | undefined, before: RequestProof, now: number): RequestProof {
  if (engine?.isHealthy === true && !engine.isHung) return { at: "ok" };
  const tries = before.at === "failed" ? before.tries + 1 : 1;
  return { at: "failed", tries, lastAt: now, message: "500" };
}
