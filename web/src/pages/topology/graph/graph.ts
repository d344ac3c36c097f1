/** What the topology shows: services, machines, and which service runs where. Pure. */
import type { HostRow, ServiceRow, StateWord } from "../../../../../src/console/rows.ts";

export type Level = StateWord["level"];

/** One service, or several of one model or namespace. */
export interface ServiceGroup {
  readonly id: string;
  readonly label: string;
  /** namespace/name, sorted. */
  readonly services: readonly string[];
  /** Names of machines, sorted. */
  readonly machines: readonly string[];
}

export interface ServiceFacts {
  readonly level: Level;
  readonly word: string;
  readonly ready: number;
  readonly desired: number;
  readonly tokensPerSecond: number;
  readonly requestsInFlight: number;
}

/** More services than this become groups. */
export const MAX_SERVICES = 60;
/** The worst is shown. */
const LEVELS: readonly Level[] = ["bad", "warn", "busy", "ok", "idle"];

/** Changes only when services or machines come, go or move: not with figures or states. */
export function groupServices(rows: readonly ServiceRow[]): readonly ServiceGroup[] {
  const sorted = [...rows].sort((a, b) => compare(keyOf(a), keyOf(b)));
  if (sorted.length <= MAX_SERVICES) return groupBy(sorted, keyOf);
  const byModel = groupBy(sorted, ({ namespace, model }) => `${namespace} / ${model}`);
  if (byModel.length <= MAX_SERVICES) return byModel;
  const byNamespace = groupBy(sorted, ({ namespace }) => namespace);
  if (byNamespace.length <= MAX_SERVICES) return byNamespace;
  const largest = [...byNamespace].sort((a, b) => b.services.length - a.services.length);
  const rest = new Set(largest.slice(MAX_SERVICES - 1).map(({ id }) => id));
  return groupBy(sorted, ({ namespace }) =>
    rest.has(namespace) ? `${rest.size} more namespaces` : namespace,
  );
}

export function factsOf(
  { services }: ServiceGroup,
  rowOf: (key: string) => ServiceRow | undefined,
): ServiceFacts {
  const rows = services.flatMap((key) => rowOf(key) ?? []);
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

/** Machines first by kind, then by name. */
export function sortMachines(hosts: readonly HostRow[]): readonly HostRow[] {
  return [...hosts].sort((a, b) => compare(a.kind, b.kind) || collator.compare(a.name, b.name));
}

export interface Selection {
  readonly kind: "service" | "machine";
  readonly id: string;
}

/** Ids of groups and machines on the chosen path; undefined if nothing is chosen. */
export function pathOf(
  selection: Selection | undefined,
  groups: readonly ServiceGroup[],
): { readonly groups: ReadonlySet<string>; readonly machines: ReadonlySet<string> } | undefined {
  if (selection === undefined) return undefined;
  const { kind, id } = selection;
  const onPath = groups.filter((group) =>
    kind === "service" ? group.id === id : group.machines.includes(id),
  );
  const machines = kind === "service" ? onPath.flatMap((group) => group.machines) : [id];
  return { groups: new Set(onPath.map((group) => group.id)), machines: new Set(machines) };
}

/** Width of an edge in pixels: 1 without traffic, 8 at most. Each tenfold of the traffic adds as much. */
export function edgeWidth(tokensPerSecond: number, requestsInFlight: number): number {
  const traffic = tokensPerSecond + 10 * requestsInFlight;
  return Math.min(8, 1 + 1.5 * Math.log10(1 + Math.max(0, traffic)));
}

function groupBy(rows: readonly ServiceRow[], labelOf: (row: ServiceRow) => string): readonly ServiceGroup[] {
  return [...Map.groupBy(rows, labelOf)].map(([label, members]) => ({
    id: label,
    label,
    services: members.map(keyOf),
    machines: [...new Set(members.flatMap(({ hosts }) => hosts))].sort(compare),
  }));
}

function keyOf({ namespace, name }: ServiceRow): string {
  return `${namespace}/${name}`;
}

const collator = new Intl.Collator("en", { numeric: true });

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
