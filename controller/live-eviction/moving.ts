/** Machines that replicas of a service are to leave for a better one: written by live eviction, read by the passes over services. */

export interface Departure {
  readonly by: "replica" | "pod";
  readonly machine: string;
  readonly because: string;
  /** Wall-clock milliseconds. */
  readonly sinceMs: number;
  /** Machines that are known to be no better: it does not go there either. */
  readonly notTo: readonly string[];
}

export interface Moving {
  readonly from: (service: string) => readonly Departure[];
  /** A later one from the same machine replaces the earlier one. */
  readonly start: (service: string, departure: Departure) => void;
  /** Its pods stay where they are; what leaves hosts continues. */
  readonly giveUp: (service: string) => void;
  /** Ends moves for which `isOver` holds; returns their services. */
  readonly end: (isOver: (service: string, departure: Departure) => boolean) => readonly string[];
}

/** What was better half an hour ago may be no longer: a move that has not ended is given up, and decided again. */
export const MOVE_MS = 1_800_000;

export function createMoving(): Moving {
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
    giveUp: (service) =>
      keep(
        service,
        from(service).filter(({ by }) => by !== "pod"),
      ),
    end: (isOver) => {
      const changed: string[] = [];
      for (const [service, all] of departures) {
        const left = all.filter((one) => !isOver(service, one));
        if (left.length === all.length) continue;
        keep(service, left);
        changed.push(service);
      }
      return changed;
    },
  };
}
