/** The live figures of the cards, computed once for all of them. What is unchanged stays the same object. Pure. */
import type { ServiceRow } from "../../../../../src/console/rows.ts";
import type { Level, ServiceGroup } from "./graph.ts";

export interface ServiceFacts {
  readonly level: Level;
  readonly word: string;
  readonly ready: number;
  readonly desired: number;
  readonly tokensPerSecond: number;
  readonly requestsInFlight: number;
}

/** By id of the group. */
export type Figures = ReadonlyMap<string, ServiceFacts>;

/** The worst is shown. */
const LEVELS: readonly Level[] = ["bad", "warn", "busy", "ok", "idle"];

export function figuresOf(
  groups: readonly ServiceGroup[],
  rows: readonly ServiceRow[],
  before: Figures,
): Figures {
  const byKey = new Map(rows.map((row) => [`${row.namespace}/${row.name}`, row]));
  return new Map(
    groups.map(({ id, services }) => {
      const facts = factsOf(services.flatMap((key) => byKey.get(key) ?? []));
      const old = before.get(id);
      return [id, old !== undefined && isShallowEqual(old, facts) ? old : facts];
    }),
  );
}

/** The worst state of a group's services on one machine, by `edgeKey`. */
export function levelsOf(
  groups: readonly ServiceGroup[],
  rows: readonly ServiceRow[],
): ReadonlyMap<string, Level> {
  const groupOf = new Map(groups.flatMap(({ id, services }) => services.map((key) => [key, id] as const)));
  const levels = new Map<string, Level>();
  for (const { namespace, name, hosts, state } of rows) {
    for (const host of hosts) {
      const key = edgeKey(groupOf.get(`${namespace}/${name}`) ?? "", host);
      const known = levels.get(key) ?? "idle";
      levels.set(key, LEVELS.indexOf(state.level) < LEVELS.indexOf(known) ? state.level : known);
    }
  }
  return levels;
}

export function edgeKey(group: string, machine: string): string {
  return `${group} ${machine}`;
}

/** For objects with the same fields. */
export function isShallowEqual<T extends object>(a: T, b: T): boolean {
  return (Object.keys(b) as (keyof T)[]).every((field) => a[field] === b[field]);
}

function factsOf(rows: readonly ServiceRow[]): ServiceFacts {
  const sum = (value: (row: ServiceRow) => number) => rows.reduce((total, row) => total + value(row), 0);
  const level = LEVELS.find((one) => rows.some(({ state }) => state.level === one)) ?? "idle";
  const worst = rows.filter(({ state }) => state.level === level);
  const word = worst[0]?.state.word ?? "";
  return {
    level,
    word: rows.length > 1 && level !== "ok" ? `${worst.length} × ${word}` : word,
    ready: sum(({ ready }) => ready),
    desired: sum(({ desired }) => desired),
    tokensPerSecond: sum(({ performance }) => performance.tokensPerSecond ?? 0),
    requestsInFlight: sum(({ performance }) => performance.requestsInFlight ?? 0),
  };
}
