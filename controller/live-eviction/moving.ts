/** Machines that replicas of a service are to leave for a better one: written by live eviction, read by the passes over services. */

export interface Moving {
  /** By machine: why. */
  readonly from: (service: string) => ReadonlyMap<string, string>;
  readonly start: (service: string, machine: string, because: string, nowMs: number) => void;
  /** Ends moves for which `isOver` holds; returns their services. */
  readonly end: (isOver: (service: string, machine: string, sinceMs: number) => boolean) => readonly string[];
}

const NONE: ReadonlyMap<string, string> = new Map();

export function createMoving(): Moving {
  const moves = new Map<string, Map<string, { readonly because: string; readonly sinceMs: number }>>();
  return {
    from: (service) => {
      const found = moves.get(service);
      return found === undefined ? NONE : new Map([...found].map(([on, { because }]) => [on, because]));
    },
    start: (service, machine, because, sinceMs) => {
      moves.set(service, new Map([...(moves.get(service) ?? []), [machine, { because, sinceMs }]]));
    },
    end: (isOver) => {
      const changed: string[] = [];
      for (const [service, machines] of moves) {
        for (const [machine, { sinceMs }] of machines) {
          if (!isOver(service, machine, sinceMs)) continue;
          machines.delete(machine);
          changed.push(service);
        }
        if (machines.size === 0) moves.delete(service);
      }
      return changed;
    },
  };
}
