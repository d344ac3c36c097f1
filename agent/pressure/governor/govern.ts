/**
 * The pressure governor: from readings and engines to a level, the engines that may start, and one to evict. Pure, total.
 *
 * At Warning no engine starts and idle engines are unloaded. At Critical one engine is evicted at a time, with two readings
 * of memory before the next. At Normal all evicted engines return, one at a time. A failed reading changes nothing.
 */
import { chooseIdle, chooseReadmission, chooseVictim } from "./choose.ts";
import { nextLevel, type PressureSignal, pressureSignalOf, withSwapReading } from "./level.ts";
import { defaultLimits, type GovernorLimits } from "./limits.ts";
import type {
  EngineEviction,
  GovernedEngine,
  GovernorInput,
  GovernorPlan,
  GovernorState,
  StartPolicy,
} from "./types.ts";

export const INITIAL_GOVERNOR_STATE: GovernorState = {
  level: "Normal",
  quietMs: 0,
  criticalInARow: 0,
  swap: [],
  isRecovering: false,
};

/** Makes one decision. Call it with every reading, and whenever the state of an engine has changed. */
export function govern(
  before: GovernorState,
  input: GovernorInput,
  limits: GovernorLimits = defaultLimits,
): GovernorPlan {
  const { state: seen, sign } = countReading(before, input, limits);
  const eviction = chooseEviction(seen, sign, input, limits);
  const { starts, state } = admit(seen, input, limits);
  return {
    state: eviction === undefined ? state : { ...state, criticalInARow: 0 },
    level: state.level,
    because: because(state, sign),
    starts,
    eviction,
    readAgainMs: state.level === "Critical" ? limits.criticalReadMs : limits.readMs,
  };
}

/** Counts each reading only once. */
function countReading(
  before: GovernorState,
  input: GovernorInput,
  limits: GovernorLimits,
): { readonly state: GovernorState; readonly sign: PressureSignal } {
  const { reading, engines } = input;
  const isNew = before.last === undefined || reading.at > before.last.at;
  const swap = isNew ? withSwapReading(before.swap, reading, limits) : before.swap;
  const sign = pressureSignalOf(input, swap, limits);
  if (!isNew) return { state: before, sign };
  const { level, quietMs } = nextLevel(before, sign, reading.at, limits);
  const isEnding = engines.some(({ standing }) => standing.at === "ending");
  const state: GovernorState = {
    level,
    quietMs,
    swap,
    last: reading,
    // An engine that is still stopping has not freed its memory yet, so these readings do not count.
    criticalInARow: isEnding ? 0 : countCritical(before.criticalInARow, sign),
    isRecovering: before.isRecovering || level !== "Normal",
    returning: before.returning,
  };
  return { state, sign };
}

/** A failed reading does not change the count. */
function countCritical(before: number, { level }: PressureSignal): number {
  if (level === "Unknown") return before;
  return level === "Critical" ? before + 1 : 0;
}

function chooseEviction(
  state: GovernorState,
  sign: PressureSignal,
  { engines, mayEvict, now }: GovernorInput,
  limits: GovernorLimits,
): EngineEviction | undefined {
  if (!mayEvict || engines.some(({ standing }) => standing.at === "ending")) return undefined;
  if (sign.level === "Critical" && state.criticalInARow >= limits.confirmations) {
    const victim = chooseVictim(engines);
    return victim && { id: victim.id, how: "evict", because: `memory is critical: ${sign.because}` };
  }
  if (sign.level !== "Warning") return undefined;
  const idle = chooseIdle(engines, now, limits);
  return idle && { id: idle.id, how: "unload", because: `memory is low (${sign.because}) and it is idle` };
}

function admit(
  state: GovernorState,
  { engines, reading, now }: GovernorInput,
  limits: GovernorLimits,
): { readonly starts: StartPolicy; readonly state: GovernorState } {
  if (state.level !== "Normal") {
    const scarcity = state.level === "Critical" ? "critical" : "low";
    return {
      state,
      starts: { at: "none", because: `memory is ${scarcity}: no engine starts until it has recovered` },
    };
  }
  const absent = engines.filter(({ standing }) => standing.at === "waiting" || standing.at === "evicted");
  // After a restart of the agent only evicted engines show that there was pressure.
  const isRecovering = state.isRecovering || absent.some(({ standing }) => standing.at === "evicted");
  const { returning, ...rest } = state;
  if (!isRecovering || absent.length === 0) {
    return { state: { ...rest, isRecovering: false }, starts: { at: "all" } };
  }
  const recovering = { ...state, isRecovering };
  if (returning !== undefined && now - returning.at < limits.returnGapMs) {
    // The permission lasts for the whole turn: to reserve, to start, and to retry the start.
    return { state: recovering, starts: admitOne(returning.id, absent.length) };
  }
  const next = engines.some(isTransitioning)
    ? undefined
    : chooseNext(absent, returning?.id, reading, now, limits);
  if (next === undefined) {
    const because =
      "memory has recovered: engines restart one at a time, as soon as enough memory is available";
    return { state: recovering, starts: { at: "none", because } };
  }
  return {
    state: { ...recovering, returning: { id: next.id, at: now } },
    starts: admitOne(next.id, absent.length),
  };
}

/** Prefers engines other than the previous one, which has had its turn without returning. */
function chooseNext(
  absent: readonly GovernedEngine[],
  previousId: string | undefined,
  reading: GovernorInput["reading"],
  now: number,
  limits: GovernorLimits,
): GovernedEngine | undefined {
  const others = absent.filter(({ id }) => id !== previousId);
  return chooseReadmission(others, reading, now, limits) ?? chooseReadmission(absent, reading, now, limits);
}

function admitOne(id: string, count: number): StartPolicy {
  return {
    at: "one",
    id,
    because: `memory has recovered: one of ${count} stopped engines restarts at a time`,
  };
}

function isTransitioning({ standing }: GovernedEngine): boolean {
  return standing.at === "starting" || standing.at === "ending";
}

function because({ level }: GovernorState, sign: PressureSignal): string {
  if (sign.level === level) return sign.because;
  if (sign.level === "Unknown") return `${sign.because}; the level is kept`;
  return `${sign.because}; the level is kept until pressure has been low for long enough`;
}
