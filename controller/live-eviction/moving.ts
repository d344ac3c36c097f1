/** Machines that replicas of a service are to leave for a better one: written by live eviction, read by the passes over services. */
import type { NodeChoice } from "../../src/linux/contract.ts";

export interface Moving {
  /** By machine: why. */
  readonly from: (service: string) => ReadonlyMap<string, string>;
  readonly start: (service: string, machine: string, because: string, nowMs: number) => void;
  /** What its pods had been given before the move began. */
  readonly keep: (service: string, choice: NodeChoice) => void;
  /** Its pods found no other node: they stay where they are, with the choice that was kept. */
  readonly giveUp: (service: string) => NodeChoice | undefined;
  /** Nodes that a move was given up from; until the next move they are not kept out. */
  readonly stayed: (service: string) => ReadonlySet<string>;
  /** Ends moves for which `isOver` holds; returns their services. */
  readonly end: (isOver: (service: string, machine: string, sinceMs: number) => boolean) => readonly string[];
}

interface Move {
  readonly machines: Map<string, { readonly because: string; readonly sinceMs: number }>;
  choice: NodeChoice | undefined;
}

export function createMoving(): Moving {
  const moves = new Map<string, Move>();
  const stayed = new Map<string, ReadonlySet<string>>();
  return {
    from: (service) =>
      new Map([...(moves.get(service)?.machines ?? [])].map(([on, { because }]) => [on, because])),
    start: (service, machine, because, sinceMs) => {
      const move = moves.get(service) ?? { machines: new Map(), choice: undefined };
      move.machines.set(machine, { because, sinceMs });
      moves.set(service, move);
      stayed.delete(service);
    },
    keep: (service, choice) => {
      const move = moves.get(service);
      if (move !== undefined) move.choice ??= choice;
    },
    giveUp: (service) => {
      const move = moves.get(service);
      moves.delete(service);
      stayed.set(service, new Set(move?.machines.keys()));
      return move?.choice;
    },
    stayed: (service) => stayed.get(service) ?? new Set(),
    end: (isOver) => {
      const changed: string[] = [];
      for (const [service, { machines }] of moves) {
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
