/** Machines that replicas of a service are to leave for a better one: written by live eviction, read by the passes over services. */

import { MOVE_MS } from "../service/pods/nodes.ts";

export interface Departure {
  readonly by: "replica" | "pod";
  readonly machine: string;
  readonly because: string;
  /** Wall-clock milliseconds. */
  readonly sinceMs: number;
  /** Machines that are known to be no better: it does not go there either. */
  readonly notTo: readonly string[];
}

/** GivenUp: no other place in time. Blocked: it did not begin. */
export type MoveResult = "Moved" | "GivenUp" | "Blocked";

export interface MoveTracker {
  readonly from: (service: string) => readonly Departure[];
  /** A later one from the same machine replaces the earlier one. */
  readonly start: (service: string, departure: Departure) => void;
  /** Its pods stay where they are; what leaves hosts continues. */
  readonly giveUp: (service: string) => void;
  /** Ends the moves that have finished; returns their services. */
  readonly end: (endOf: (service: string, departure: Departure) => MoveEnd | undefined) => readonly string[];
}

/** NoService: it was deleted meanwhile, which is no result of the move. */
export type MoveEnd = Exclude<MoveResult, "Blocked"> | "NoService";

/** Undefined while the move is under way. Pure. */
export function moveEndOf(
  seen: { readonly hasService: boolean; readonly isOnMachine: boolean },
  sinceMs: number,
  nowMs: number,
): MoveEnd | undefined {
  if (!seen.hasService) return "NoService";
  if (!seen.isOnMachine) return "Moved";
  return nowMs - sinceMs >= MOVE_MS ? "GivenUp" : undefined;
}

/** `count` gets the result of each move that ends. */
export function createMoveTracker(count: (result: MoveResult) => void): MoveTracker {
  const departures = new Map<string, readonly Departure[]>();
  const from = (service: string) => departures.get(service) ?? [];
  const keep = (service: string, left: readonly Departure[]) => {
    if (left.length === 0) departures.delete(service);
    else departures.set(service, left);
  };
  return {
    from,
    start: (service, departure) => {
      const { by, machine } = departure;
      const others = from(service).filter((one) => one.by !== by || one.machine !== machine);
      keep(service, [...others, departure]);
    },
    giveUp: (service) => {
      const left = from(service).filter(({ by }) => by !== "pod");
      for (const _ of from(service).slice(left.length)) count("GivenUp");
      keep(service, left);
    },
    end: (endOf) => {
      const changed: string[] = [];
      for (const [service, all] of departures) {
        const ends = all.map((one) => endOf(service, one));
        const left = all.filter((_, index) => ends[index] === undefined);
        if (left.length === all.length) continue;
        for (const end of ends) if (end !== undefined && end !== "NoService") count(end);
        keep(service, left);
        changed.push(service);
      }
      return changed;
    },
  };
}
