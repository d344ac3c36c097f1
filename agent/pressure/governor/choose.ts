/** Chooses the engine to evict under pressure, and the engine to readmit. Pure. */
import type { Priority } from "../../../src/api/fields/shared.ts";
import { evictionBackoffMs, type GovernorLimits } from "./limits.ts";
import type { GovernedEngine, PressureReading } from "./types.ts";

const RANK: Readonly<Record<Priority, number>> = { critical: 4, high: 3, normal: 2, low: 1, batch: 0 };

/** The engine with the lowest priority, then the most memory, then the highest age. Never a protected one. */
export function chooseVictim(engines: readonly GovernedEngine[]): GovernedEngine | undefined {
  return engines
    .filter(({ standing, isProtected }) => {
      return !isProtected && (standing.at === "running" || standing.at === "starting");
    })
    .toSorted(
      (a, b) => RANK[a.priority] - RANK[b.priority] || b.bytes - a.bytes || a.age - b.age || byId(a, b),
    )[0];
}

/** An engine of normal or lower priority that is idle for long: it is unloaded before an engine in use must be evicted. */
export function chooseIdle(
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
export function chooseReadmission(
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
