/** Derives the pressure level from readings: raised immediately, lowered by one step after a quiet time. Pure. */
import { formatBytes } from "../../../src/util/bytes.ts";
import type { GovernorLimits } from "./limits.ts";
import type { GovernorInput, GovernorState, PressureLevel, PressureReading } from "./types.ts";

/** The level that one reading indicates. A failed reading indicates no level. */
export interface PressureSignal {
  readonly level: PressureLevel | "Unknown";
  readonly because: string;
}

/** Starts from the system's level; growth of swap, scarce memory and killed engines can each raise it. */
export function pressureSignalOf(
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

export function withSwapReading(
  swap: GovernorState["swap"],
  { at, swapUsedBytes }: PressureReading,
  limits: GovernorLimits,
): GovernorState["swap"] {
  const recent = swap.filter((point) => at - point.at <= limits.swapWindowMs);
  return swapUsedBytes === undefined ? recent : [...recent, { at, bytes: swapUsedBytes }];
}

const ORDER: Readonly<Record<PressureLevel, number>> = { Normal: 0, Warning: 1, Critical: 2 };

/** The next level, and the quiet time below it so far. */
export function nextLevel(
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
