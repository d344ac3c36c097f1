/** The filter by state, for services and machines alike. Pure. */
import type { HostRow, ServiceRow, StateWord } from "../../../../src/console/rows.ts";

export type Health = "ok" | "busy" | "attention" | "idle";

export const HEALTHS: readonly Health[] = ["attention", "busy", "ok", "idle"];

interface Stated {
  readonly state: StateWord;
}

/** Everything passes an empty choice. */
export function isOfHealth(chosen: readonly string[]) {
  return (row: Stated): boolean => chosen.length === 0 || chosen.includes(healthOf(row));
}

/** Machines of the chosen states, and those on which the shown services run. */
export function withTheirMachines<H extends Pick<HostRow, "name" | "state">>(
  hosts: readonly H[],
  services: readonly Pick<ServiceRow, "hosts">[],
  chosen: readonly string[],
): readonly H[] {
  if (chosen.length === 0) return hosts;
  const isChosen = isOfHealth(chosen);
  const used = new Set(services.flatMap((service) => service.hosts));
  return hosts.filter((host) => isChosen(host) || used.has(host.name));
}

export function countHealths(rows: readonly Stated[]): Readonly<Record<Health, number>> {
  const counts = { ok: 0, busy: 0, attention: 0, idle: 0 };
  for (const row of rows) counts[healthOf(row)] += 1;
  return counts;
}

function healthOf({ state: { level } }: Stated): Health {
  return level === "bad" || level === "warn" ? "attention" : level;
}
