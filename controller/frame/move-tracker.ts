/** Tracks moves of replicas to better machines. Live eviction starts moves, and the passes over services carry them out. */

/** Timeout of a move. After it the scores may be outdated. */
export const MOVE_MS = 1_800_000;

export interface Departure {
  readonly by: "replica" | "pod";
  readonly machine: string;
  readonly because: string;
  /** Wall-clock milliseconds. */
  readonly sinceMs: number;
  /** Machines that are known to be no better, so the replica must not move there. */
  readonly notTo: readonly string[];
}

/** GivenUp: no other machine in time. Blocked: the move did not start. */
export type MoveResult = "Moved" | "GivenUp" | "Blocked";

export interface MoveTracker {
  readonly from: (service: string) => readonly Departure[];
  /** Starts a move. It replaces an earlier move from the same machine. */
  readonly start: (service: string, departure: Departure) => void;
  /** Gives up the moves of a service's pods. Moves of replicas on hosts continue. */
  readonly giveUp: (service: string) => void;
  /** Ends the moves that have finished; returns their services. */
  readonly end: (endOf: (service: string, departure: Departure) => MoveEnd | undefined) => readonly string[];
}

/** NoService: the service was deleted, which does not count as a result. */
export type MoveEnd = Exclude<MoveResult, "Blocked"> | "NoService";

/** Undefined while the move is in progress. Pure. */
export function moveEndOf(
  seen: { readonly hasService: boolean; readonly isOnMachine: boolean },
  sinceMs: number,
  nowMs: number,
): MoveEnd | undefined {
  if (!seen.hasService) return "NoService";
  if (!seen.isOnMachine) return "Moved";
  return nowMs - sinceMs >= MOVE_MS ? "GivenUp" : undefined;
}

/** `count` is called with the result of each move that ends. */
export function createMoveTracker(count: (result: MoveResult) => void): MoveTracker {
  const departures = new Map<string, readonly Departure[]>();
  const from = (service: string) => departures.get(service) ?? [];
  const store = (service: string, left: readonly Departure[]) => {
    if (left.length === 0) departures.delete(service);
    else departures.set(service, left);
  };
  return {
    from,
    start: (service, departure) => {
      const { by, machine } = departure;
      const others = from(service).filter((one) => one.by !== by || one.machine !== machine);
      store(service, [...others, departure]);
    },
    giveUp: (service) => {
      const left = from(service).filter(({ by }) => by !== "pod");
      for (const _ of from(service).slice(left.length)) count("GivenUp");
      store(service, left);
    },
    end: (endOf) => {
      const changed: string[] = [];
      for (const [service, all] of departures) {
        const ends = all.map((one) => endOf(service, one));
        const left = all.filter((_, index) => ends[index] === undefined);
        if (left.length === all.length) continue;
        for (const end of ends) if (end !== undefined && end !== "NoService") count(end);
        store(service, left);
        changed.push(service);
      }
      return changed;
    },
  };
}
