/**
 * The pressure governor: from readings and engines to a level, the engines that may start, and one to evict. Pure, total.
 *
 * At Warning no engine starts and idle engines are unloaded. At Critical one engine is evicted at a time, with two readings
 * of memory before the next. At Normal all evicted engines return, one at a time. A failed reading changes nothing.
 */

import type { Priority } from "../../../src/api/fields/shared.ts";
import { formatBytes } from "../../../src/util/bytes.ts";
import { defaultLimits, evictionBackoffMs, type GovernorLimits } from "./limits.ts";
import type {
  EngineEviction,
  GovernedEngine,
  GovernorInput,
  GovernorPlan,
  GovernorState,
  PressureLevel,
  PressureReading,
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

const RANK: Readonly<Record<Priority, number>> = { critical: 4, high: 3, normal: 2, low: 1, batch: 0 };

/** The engine with the lowest priority, then the most memory, then the highest age. Never a protected one. */
function chooseVictim(engines: readonly GovernedEngine[]): GovernedEngine | undefined {
  return engines
    .filter(({ standing, isProtected }) => {
      return !isProtected && (standing.at === "running" || standing.at === "starting");
    })
    .toSorted(
      (a, b) => RANK[a.priority] - RANK[b.priority] || b.bytes - a.bytes || a.age - b.age || byId(a, b),
    )[0];
}

/** An engine of normal or lower priority that is idle for long: it is unloaded before an engine in use must be evicted. */
function chooseIdle(
  engines: readonly GovernedEngine[],
  now: number,
  limits: GovernorLimits,
): GovernedEngine | undefined {
  return chooseVictim(
    engines.filter(({ standing, priority }) => {
      const idleSince = standing.at === "running" ? standing.idleSince : undefined;
      return idleSince !== undefined && now - idleSince >= limits.idleMs && RANK[priority] <= RANK.normal;
    }),
  );
}

/** The engine with the highest priority, then the highest age, among those whose backoff has elapsed and that fit into memory. */
function chooseReadmission(
  engines: readonly GovernedEngine[],
  reading: PressureReading,
  now: number,
  limits: GovernorLimits,
): GovernedEngine | undefined {
  return engines
    .filter((engine) => mayReturn(engine, now, limits) && fits(engine, reading, limits))
    .toSorted((a, b) => RANK[b.priority] - RANK[a.priority] || a.age - b.age || byId(a, b))[0];
}

function mayReturn({ standing, evictions }: GovernedEngine, now: number, limits: GovernorLimits): boolean {
  if (standing.at === "waiting") return true;
  return standing.at === "evicted" && now - standing.since >= evictionBackoffMs(limits, evictions);
}

/** True if the memory is available now; admission checks the claim separately. */
function fits({ bytes }: GovernedEngine, reading: PressureReading, limits: GovernorLimits): boolean {
  const { availableBytes, totalBytes } = reading;
  if (availableBytes === undefined || totalBytes === undefined) return true;
  return availableBytes - bytes >= totalBytes * limits.scarceShare;
}

function byId(a: GovernedEngine, b: GovernedEngine): number {
  return a.id < b.id ? -1 : 1;
}

/** The level that one reading indicates. A failed reading indicates no level. */
interface PressureSignal {
  readonly level: PressureLevel | "Unknown";
  readonly because: string;
}

/** Starts from the system's level; growth of swap, scarce memory and killed engines can each raise it. */
function pressureSignalOf(
  { reading, killedAt, now }: Pick<GovernorInput, "reading" | "killedAt" | "now">,
  swap: GovernorState["swap"],
  limits: GovernorLimits,
): PressureSignal {
  if (reading.pressure === "Critical")
    return { level: "Critical", because: "the OS reports critical memory pressure" };
  const second = secondSign(reading, swap, limits, killedAt, now);
  if (reading.pressure === "Warning") {
    const isWorse = second !== undefined && isScarce(reading, limits.scarceShare);
    return isWorse
      ? { level: "Critical", because: `the OS reports a memory pressure warning, and ${second}` }
      : { level: "Warning", because: "the OS reports a memory pressure warning" };
  }
  // Without a warning of the system a second sign only blocks starts; it never evicts an engine.
  if (second !== undefined) return { level: "Warning", because: second };
  if (reading.pressure === "Unknown") return { level: "Unknown", because: "memory could not be read" };
  return { level: "Normal", because: "memory is available" };
}

function secondSign(
  reading: PressureReading,
  swap: GovernorState["swap"],
  limits: GovernorLimits,
  killedAt: number | undefined,
  now: number,
): string | undefined {
  const { totalBytes = 0 } = reading;
  const grownBytes = grown(swap);
  if (totalBytes > 0 && grownBytes >= totalBytes * limits.swapShare)
    return `swap grew by ${formatBytes(grownBytes)} within a minute`;
  // Users and tests kill engines too: a kill counts as the system's only if memory is scarce.
  const wasKilled = killedAt !== undefined && now - killedAt < limits.killMs;
  if (wasKilled && isScarce(reading, limits.killShare)) return "an engine was killed while memory was scarce";
  if (isScarce(reading, limits.scarcestShare))
    return `only ${formatBytes(reading.availableBytes ?? 0)} are available`;
  return undefined;
}

function isScarce({ availableBytes, totalBytes }: PressureReading, share: number): boolean {
  return availableBytes !== undefined && totalBytes !== undefined && availableBytes < totalBytes * share;
}

/** Growth from the lowest point of the window to its end. */
function grown(swap: GovernorState["swap"]): number {
  const last = swap.at(-1);
  return last === undefined ? 0 : last.bytes - Math.min(...swap.map(({ bytes }) => bytes));
}

function withSwapReading(
  swap: GovernorState["swap"],
  { at, swapUsedBytes }: PressureReading,
  limits: GovernorLimits,
): GovernorState["swap"] {
  const recent = swap.filter((point) => at - point.at <= limits.swapWindowMs);
  return swapUsedBytes === undefined ? recent : [...recent, { at, bytes: swapUsedBytes }];
}

const ORDER: Readonly<Record<PressureLevel, number>> = { Normal: 0, Warning: 1, Critical: 2 };

/** The next level, and the quiet time below it so far. */
function nextLevel(
  state: Pick<GovernorState, "level" | "quietMs" | "last">,
  sign: PressureSignal,
  at: number,
  limits: GovernorLimits,
): { readonly level: PressureLevel; readonly quietMs: number } {
  const { level, last } = state;
  if (sign.level === "Unknown") return { level, quietMs: state.quietMs };
  if (ORDER[sign.level] > ORDER[level]) return { level: sign.level, quietMs: 0 };
  if (sign.level === level) return { level, quietMs: 0 };
  // Only the time between two successful readings counts as quiet, not gaps or failed readings.
  const isJoined = last !== undefined && last.pressure !== "Unknown";
  const quietMs = state.quietMs + (isJoined ? Math.min(limits.longestGapMs, Math.max(0, at - last.at)) : 0);
  const neededMs = level === "Critical" ? limits.leaveCriticalMs : limits.leaveWarningMs;
  if (quietMs < neededMs) return { level, quietMs };
  return { level: level === "Critical" ? "Warning" : "Normal", quietMs: 0 };
}
