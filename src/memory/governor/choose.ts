/** Whom pressure ends first, and who comes back first. Pure. */
import type { Priority } from "../../api/fields/shared.ts";
import { awayMs, type GovernorLimits } from "./limits.ts";
import type { Engine, PressureReading } from "./types.ts";

const RANK: Readonly<Record<Priority, number>> = { critical: 4, high: 3, normal: 2, low: 1, batch: 0 };

/** Lowest priority first, then what gives back most, then the oldest. Protected ones never. */
export function chooseVictim(engines: readonly Engine[]): Engine | undefined {
  return engines
    .filter(({ standing, isProtected }) => {
      return !isProtected && (standing.at === "running" || standing.at === "starting");
    })
    .toSorted(
      (a, b) => RANK[a.priority] - RANK[b.priority] || b.bytes - a.bytes || a.age - b.age || byId(a, b),
    )[0];
}

/** An engine that serves nobody for long and whose priority allows it: it gives its memory back before anybody has to. */
export function chooseIdle(
  engines: readonly Engine[],
  now: number,
  limits: GovernorLimits,
): Engine | undefined {
  return chooseVictim(
    engines.filter(({ standing, priority }) => {
      const idleSince = standing.at === "running" ? standing.idleSince : undefined;
      return idleSince !== undefined && now - idleSince >= limits.idleMs && RANK[priority] <= RANK.normal;
    }),
  );
}

/** Highest priority first, then who waits longest. Only who has been away long enough, and only who fits. */
export function chooseReturn(
  engines: readonly Engine[],
  reading: PressureReading,
  now: number,
  limits: GovernorLimits,
): Engine | undefined {
  return engines
    .filter((engine) => mayReturn(engine, now, limits) && fits(engine, reading, limits))
    .toSorted((a, b) => RANK[b.priority] - RANK[a.priority] || a.age - b.age || byId(a, b))[0];
}

function mayReturn({ standing, evictions }: Engine, now: number, limits: GovernorLimits): boolean {
  if (standing.at === "waiting") return true;
  return standing.at === "evicted" && now - standing.since >= awayMs(limits, evictions);
}

/** The claim says whether it may run at all; this says whether the memory is there now. */
function fits({ bytes }: Engine, reading: PressureReading, limits: GovernorLimits): boolean {
  const { availableBytes, totalBytes } = reading;
  if (availableBytes === undefined || totalBytes === undefined) return true;
  return availableBytes - bytes >= totalBytes * limits.scarceShare;
}

function byId(a: Engine, b: Engine): number {
  return a.id < b.id ? -1 : 1;
}
