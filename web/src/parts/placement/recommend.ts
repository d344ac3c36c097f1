/** Which of the machines that a model can use is the one to take, and why. Pure. */
import type { HostRow } from "../../../../src/console/rows.ts";
import type { SimulatedPlace } from "../../api/density.ts";
import { GIB } from "../format.ts";

export interface Place {
  readonly simulated: SimulatedPlace;
  readonly host: HostRow | undefined;
  /** Share of the machine's memory for engines that stays free; undefined while its budget is unknown. */
  readonly freeShare: number | undefined;
  readonly isRecommended: boolean;
  /** Why the machine takes no replica although the model may fit. */
  readonly obstacle?: "cordoned" | "stale";
}

export interface Preview {
  /** The recommended one first. Machines that do not fit are shown only if none does. */
  readonly places: readonly Place[];
  readonly fitting: number;
  /** Replicas for which these have memory now. */
  readonly room: number;
  readonly why: "fastest with reserve" | "most memory left" | "none fits" | "none accepts";
}

const RESERVE = 0.2;

/** The fastest of those that leave a fifth of their memory free; if none does, the one that leaves most. */
export function previewOf(rows: readonly SimulatedPlace[], hosts: readonly HostRow[], max: number): Preview {
  const byKey = new Map(hosts.map((host) => [`${host.kind}/${host.name}`, host]));
  const places = rows.map((simulated): Omit<Place, "isRecommended"> => {
    const host = byKey.get(`${simulated.kind}/${simulated.nodeName}`);
    const freeShare = freeShareOf(simulated, host);
    const obstacle = obstacleOf(simulated);
    return obstacle === undefined ? { simulated, host, freeShare } : { simulated, host, freeShare, obstacle };
  });
  const fitting = places.filter(({ simulated }) => canPlace(simulated));
  if (fitting.length === 0) {
    const misses = [...places]
      .sort((a, b) => shortOf(a.simulated) - shortOf(b.simulated))
      .slice(0, max)
      .map((place) => ({ ...place, isRecommended: false }));
    const isShort = places.every(({ simulated }) => simulated.fitLevel === "too_tight");
    return { places: misses, fitting: 0, room: 0, why: isShort ? "none fits" : "none accepts" };
  }
  const roomy = fitting.filter(({ freeShare = 0 }) => freeShare >= RESERVE);
  const [best] =
    roomy.length > 0
      ? roomy.sort((a, b) => b.simulated.estimatedTps - a.simulated.estimatedTps)
      : [...fitting].sort((a, b) => (b.freeShare ?? 0) - (a.freeShare ?? 0));
  const others = fitting.filter((place) => place !== best);
  return {
    places: [best, ...others]
      .filter((place) => place !== undefined)
      .slice(0, max)
      .map((place) => ({ ...place, isRecommended: place === best })),
    fitting: fitting.length,
    room: fitting.reduce((sum, { simulated }) => sum + replicasOn(simulated), 0),
    why: roomy.length > 0 ? "fastest with reserve" : "most memory left",
  };
}

/** GiB that are missing; 0 if it fits. */
export function shortOf({ requiredMemoryGb, availableMemoryGb }: SimulatedPlace): number {
  return Math.max(0, requiredMemoryGb - availableMemoryGb);
}

function replicasOn({ requiredMemoryGb, availableMemoryGb }: SimulatedPlace): number {
  return requiredMemoryGb > 0 ? Math.floor(availableMemoryGb / requiredMemoryGb) : 0;
}

function obstacleOf({ stale, schedulable }: SimulatedPlace): Place["obstacle"] {
  if (stale) return "stale";
  return schedulable ? undefined : "cordoned";
}

function canPlace({ fitLevel, stale, schedulable }: SimulatedPlace): boolean {
  return fitLevel !== "too_tight" && !stale && schedulable;
}

function freeShareOf({ remainingMemoryGb }: SimulatedPlace, host: HostRow | undefined): number | undefined {
  const usableBytes = (host?.budgetBytes ?? 0) - (host?.reserveBytes ?? 0);
  return usableBytes <= 0 ? undefined : (remainingMemoryGb * GIB) / usableBytes;
}
