/** What the simulated host shows of itself. */
import type { DrainReading } from "../evidence/quiet.ts";
import type { Observed, RuntimeState } from "../observed.ts";
import type { Engine } from "./engine.ts";

interface Host {
  readonly now: number;
  readonly engine: Engine | undefined;
  readonly hasAddress: boolean;
  readonly moved: "no" | "beside" | "cut off";
  readonly isBusy: boolean;
  readonly tokensTotal: number;
  readonly runtime: "present" | "missing";
}

/** Where the engine listens, seen from the host's addresses. */
export function whereItListens({
  engine,
  hasAddress,
  moved,
}: Host): Pick<Observed, "hasAddress" | "isBoundElsewhere" | "isCutOff"> {
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

/** Whether its engine is installed. */
export function runtimeOf({ runtime, now }: Host): RuntimeState {
  return runtime === "present"
    ? { at: "present", version: "1", checkedAt: now }
    : { at: "missing", code: "RuntimeNotInstalled", message: "not installed", checkedAt: now };
}
