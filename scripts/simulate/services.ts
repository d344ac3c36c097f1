/** The services of a simulated day, and what each asks of placement. */
import { PRIORITIES } from "../../src/capacity/placement/priority.ts";
import type { Demand, HostChoice, HostRefusal } from "../../src/capacity/placement/types.ts";
import type { Random } from "../../test/bed/random.ts";
import type { SimulatedModel } from "./fleet.ts";

export type PriorityName = keyof typeof PRIORITIES;

export type SimulatedSlot =
  | { readonly at: "empty" }
  | { readonly at: "placed"; readonly host: string; readonly replica: string };

export interface SimulatedService {
  readonly name: string;
  readonly priority: PriorityName;
  readonly model: SimulatedModel;
  readonly bytes: number;
  readonly choice: HostChoice;
  readonly isEvictable: boolean;
  readonly createdMs: number;
  readonly slots: SimulatedSlot[];
  readonly refusals: HostRefusal[];
  /** Since when something of it has no host. */
  waitingSinceMs: number | undefined;
  attempts: number;
  isGone: boolean;
}

export interface ServiceMaker {
  readonly make: (number: number, nowMs: number) => SimulatedService;
}

export function createServiceMaker(
  random: Random,
  models: readonly SimulatedModel[],
  meanBytes: number,
): ServiceMaker {
  const popular = models.map((model) => [model, model.popularity] as const);
  const meanSize =
    models.reduce((sum, { size, popularity }) => sum + size * popularity, 0) /
    models.reduce((sum, { popularity }) => sum + popularity, 0);
  return {
    make: (number, nowMs) => {
      const model = random.pickWeighted(popular);
      const replicas = random.pickWeighted([
        [1, 85],
        [2, 10],
        [3, 5],
      ] as const);
      return {
        name: `team-${1 + (number % 20)}/service-${number}`,
        priority: random.pickWeighted([
          ["critical", 2],
          ["high", 10],
          ["normal", 58],
          ["low", 15],
          ["batch", 15],
        ] as const),
        model,
        bytes: Math.round((model.size / meanSize) * meanBytes * random.between(0.9, 1.3)),
        choice: {
          hosts: [],
          spread: random.pickWeighted([
            ["Preferred", 85],
            ["Required", 10],
            ["None", 5],
          ] as const),
          hostSelector: random.chance(0.05) ? { matchLabels: { zone: "a" } } : undefined,
        },
        isEvictable: random.chance(0.9),
        createdMs: nowMs,
        slots: Array.from({ length: replicas }, () => ({ at: "empty" })),
        refusals: [],
        waitingSinceMs: nowMs,
        attempts: 0,
        isGone: false,
      };
    },
  };
}

/** What has no host yet. */
export function demandsOf(service: SimulatedService): Demand[] {
  const { name, priority, createdMs, model, bytes, choice, refusals, waitingSinceMs } = service;
  if (service.isGone) return [];
  return service.slots.flatMap((slot, ordinal): Demand[] =>
    slot.at === "placed"
      ? []
      : [
          {
            service: name,
            ordinal,
            priority: PRIORITIES[priority],
            since: createdMs,
            mayPreempt: true,
            runtime: model.runtime,
            memory: { known: true, bytes },
            weights: { source: model.source },
            speeds: model.speeds ?? {},
            predecessors: [],
            choice,
            refusals,
            waitingSinceMs,
          },
        ],
  );
}
