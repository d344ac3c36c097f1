/** What the topology shows: services, machines, and which service runs where. Pure. */
import type { HostRow, ServiceRow, StateWord } from "../../../../../src/console/rows.ts";

export type Level = StateWord["level"];

/** One service, or several of one model or namespace. */
export interface ServiceGroup {
  readonly id: string;
  /** Name of the service, of its model or of its namespace. */
  readonly name: string;
  /** Empty for a group of a namespace. */
  readonly namespace: string;
  /** namespace/name, sorted. */
  readonly services: readonly string[];
  /** Names of machines, sorted. */
  readonly machines: readonly string[];
}

export interface MachineId {
  readonly kind: "Host" | "Node";
  readonly name: string;
}

/** More services than this become groups. */
export const MAX_SERVICES = 30;

/** Changes only when services or machines come, go or move: not with figures or states. */
export function groupServices(rows: readonly ServiceRow[]): readonly ServiceGroup[] {
  const sorted = rows.map((row) => ({ row, key: keyOf(row) })).sort((a, b) => compare(a.key, b.key));
  const members = sorted.map(({ row }) => row);
  const one = groupBy(members, ({ namespace, name }) => [namespace, name]);
  if (one.length <= MAX_SERVICES) return one;
  const byModel = groupBy(members, ({ namespace, model }) => [namespace, model]);
  if (byModel.length <= MAX_SERVICES) return byModel;
  const byNamespace = groupBy(members, ({ namespace }) => ["", namespace]);
  if (byNamespace.length <= MAX_SERVICES) return byNamespace;
  const largest = [...byNamespace].sort((a, b) => b.services.length - a.services.length);
  const rest = new Set(largest.slice(MAX_SERVICES - 1).map(({ name }) => name));
  return groupBy(members, ({ namespace }) => [
    "",
    rest.has(namespace) ? `${rest.size} more namespaces` : namespace,
  ]);
}

/** True if `groupServices` gives the same for both. Cheap: most batches change figures only. */
export function hasSameMembers(before: readonly ServiceRow[], now: readonly ServiceRow[]): boolean {
  return isEach(
    before,
    now,
    (a, b) =>
      a === b ||
      (a.name === b.name &&
        a.namespace === b.namespace &&
        a.model === b.model &&
        isEach(a.hosts, b.hosts, (one, other) => one === other)),
  );
}

/** Machines first by kind, then by name. */
export function sortMachines(hosts: readonly HostRow[]): readonly MachineId[] {
  return hosts
    .map(({ kind, name }) => ({ kind, name }))
    .sort((a, b) => compare(a.kind, b.kind) || collator.compare(a.name, b.name));
}

/** True if `sortMachines` gives the same for both. */
export function hasSameMachines(before: readonly HostRow[], now: readonly HostRow[]): boolean {
  return isEach(before, now, (a, b) => a === b || (a.name === b.name && a.kind === b.kind));
}

/** Machines of the chosen states, and those on which the shown services run. */
export function withTheirMachines<H extends Pick<HostRow, "name" | "state">>(
  hosts: readonly H[],
  services: readonly Pick<ServiceRow, "hosts">[],
  levels: readonly string[],
): readonly H[] {
  if (levels.length === 0) return hosts;
  const used = new Set(services.flatMap((service) => service.hosts));
  return hosts.filter(({ name, state }) => levels.includes(state.level) || used.has(name));
}

export interface Selection {
  readonly kind: "service" | "machine";
  readonly id: string;
}

/** Ids of all that a chosen service or machine touches. */
export interface ChosenPath {
  readonly groups: ReadonlySet<string>;
  readonly machines: ReadonlySet<string>;
}

/** Undefined if nothing is chosen, or if the chosen service is gone. */
export function pathOf(
  selection: Selection | undefined,
  groups: readonly ServiceGroup[],
): ChosenPath | undefined {
  if (selection === undefined) return undefined;
  const { kind, id } = selection;
  const onPath = groups.filter((group) =>
    kind === "service" ? group.id === id : group.machines.includes(id),
  );
  if (kind === "service" && onPath.length === 0) return undefined;
  const machines = kind === "service" ? onPath.flatMap((group) => group.machines) : [id];
  return { groups: new Set(onPath.map((group) => group.id)), machines: new Set(machines) };
}

/** Width of an edge in pixels: 1 without traffic, 8 at most. Each tenfold of the traffic adds as much. */
export function edgeWidth(tokensPerSecond: number, requestsInFlight: number): number {
  const traffic = tokensPerSecond + 10 * requestsInFlight;
  return Math.min(8, 1 + Math.log10(1 + Math.max(0, traffic)));
}

function groupBy(
  rows: readonly ServiceRow[],
  nameOf: (row: ServiceRow) => readonly [namespace: string, name: string],
): readonly ServiceGroup[] {
  const groups = Map.groupBy(rows, (row) => nameOf(row).join("/"));
  return [...groups].map(([id, members]) => {
    const [namespace, name] = nameOf(members[0] as ServiceRow);
    return {
      id,
      name,
      namespace,
      services: members.map(keyOf),
      machines: [...new Set(members.flatMap(({ hosts }) => hosts))].sort(compare),
    };
  });
}

function isEach<T>(before: readonly T[], now: readonly T[], isSame: (a: T, b: T) => boolean): boolean {
  return before.length === now.length && before.every((one, index) => isSame(one, now[index] as T));
}

function keyOf({ namespace, name }: ServiceRow): string {
  return `${namespace}/${name}`;
}

const collator = new Intl.Collator("en", { numeric: true });

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
