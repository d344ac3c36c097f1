/** What the simulated host shows of itself. */

import type { DrainReading } from "../../engines/driver/engine.ts";
import { crashBackoffMs } from "../end/plan.ts";
import type { Crashes, ObservedReplica, RunState, RuntimeState } from "../evidence/observed.ts";
import { defaultTimings } from "../evidence/timings.ts";
import type { Engine } from "./engine.ts";

interface Host {
  readonly now: number;
  readonly engine: Engine | undefined;
  readonly hasAddress: boolean;
  readonly moved: "no" | "beside" | "cut off";
  readonly isBusy: boolean;
  readonly tokensTotal: number;
  readonly runtime: "present" | "missing";
  readonly model: "there" | "missing" | "broken";
  readonly weights: number;
}

/** The observed addresses of the engine, compared with those of the host. */
export function observedAddress({
  engine,
  hasAddress,
  moved,
}: Host): Pick<ObservedReplica, "hasAddress" | "isBoundElsewhere" | "isCutOff"> {
  const isBoundElsewhere = moved !== "no" && engine?.hasEnded === false;
  return {
    hasAddress: hasAddress && !isBoundElsewhere,
    isBoundElsewhere,
    isCutOff: isBoundElsewhere && moved === "cut off",
  };
}

/** The gauges as a drain reads them. */
export function workOf({ isBusy, tokensTotal }: Host): DrainReading {
  return { inFlight: isBusy ? 1 : 0, tokensTotal };
}

/** State of the engine's installation. */
export function runtimeOf({ runtime, now }: Host): RuntimeState {
  return runtime === "present"
    ? { at: "present", version: "1", checkedAt: now }
    : { at: "missing", code: "RuntimeNotInstalled", message: "not installed", checkedAt: now };
}

/** What is left of its process. */
export function runOf({ engine }: Host): RunState {
  if (engine === undefined) return { at: "none" };
  const ending = engine.isKilled ? "killing" : engine.stopping === undefined ? undefined : "stopping";
  const asked = ending === undefined ? {} : ({ ending } as const);
  if (!engine.hasEnded) return { at: "running", pid: 42, ...asked };
  const exit = { code: 1 };
  return engine.leavesChildren ? { at: "ended", exit, ...asked } : { at: "gone", exit };
}

/** Its weights, in the state that was known before. */
export function modelOf(host: Host, before: ObservedReplica["model"]): ObservedReplica["model"] {
  if (host.model === "there") {
    const now = `weights ${host.weights}`;
    const weights = before.at === "stored" ? (before.weights ?? now) : now;
    return { at: "stored", sizeBytes: 50, weights, isReplaced: weights !== now };
  }
  if (host.model === "broken") {
    return { at: "failed", code: "ChecksumMismatch", message: "wrong", transient: false, retryAt: 0 };
  }
  return before.at === "stored" || (before.at === "failed" && !before.transient) ? { at: "absent" } : before;
}

/** One more unexpected exit. */
export function crashed({ crashes, model }: ObservedReplica, runId: string, { engine, now }: Host): Crashes {
  const restarts = crashes.restarts + 1;
  const weights = model.at === "stored" ? model.weights : undefined;
  const tried = { runtimeVersion: "1", weights };
  return {
    terminal: engine?.isRefusing === true ? tried : undefined,
    restarts,
    recordedRunId: runId,
    backoffUntil: now + crashBackoffMs(defaultTimings, restarts, 0),
    lastExit: { killedByUs: false, reason: "EngineCrashed", message: "it crashed", at: "", logTail: "" },
  };
}
