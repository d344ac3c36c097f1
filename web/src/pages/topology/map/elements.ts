/** Nodes and edges of the map. One that shows the same as before stays the same object, so that it is not rendered again. */
import type { Edge, Node } from "@xyflow/react";
import type { HostRow } from "../../../../../src/console/rows.ts";
import { edgeKey, type Figures, isShallowEqual, type ServiceFacts } from "../graph/figures.ts";
import { type ChosenPath, edgeWidth, type Level, type Selection, type ServiceGroup } from "../graph/graph.ts";
import type { Box, Layout, MachineLook } from "../graph/layout.ts";

type Select = (selection: Selection | undefined) => void;

interface CardData extends Record<string, unknown> {
  readonly isOff: boolean;
  readonly isChosen: boolean;
  readonly select: Select;
}

export interface ServiceData extends CardData {
  readonly group: ServiceGroup;
  readonly facts: ServiceFacts;
}

export interface MachineData extends CardData {
  readonly host: HostRow;
}

export interface GatewayData extends Record<string, unknown> {
  readonly line: string;
}

export interface FrameData extends Record<string, unknown> {
  readonly kind: "Host" | "Node";
}

export interface EdgeData extends Record<string, unknown> {
  /** Absent from the gateway: its edges share a trunk. */
  readonly level?: Level | undefined;
  readonly width: number;
  readonly isOff: boolean;
  readonly isOn: boolean;
}

export interface Shown {
  readonly groups: readonly ServiceGroup[];
  readonly figures: Figures;
  readonly levels: ReadonlyMap<string, Level>;
  readonly hosts: ReadonlyMap<string, HostRow>;
  readonly gateway: string;
  readonly selection: Selection | undefined;
  readonly path: ChosenPath | undefined;
  readonly select: Select;
}

export function nodesOf(layout: Layout, look: MachineLook, shown: Shown, before: readonly Node[]): Node[] {
  const { figures, hosts, path, selection, select } = shown;
  const groups = new Map(shown.groups.map((group) => [group.id, group]));
  const isChosen = (kind: Selection["kind"], id: string) => selection?.kind === kind && selection.id === id;
  const nodes = [
    ...layout.frames.map((frame) => nodeOf(`frame ${frame.kind}`, "frame", frame, { kind: frame.kind })),
    nodeOf("gateway", "gateway", layout.gateway, { line: shown.gateway }),
  ];
  for (const [id, box] of layout.services) {
    const isOff = path !== undefined && !path.groups.has(id);
    const [group, facts] = [groups.get(id), figures.get(id)];
    const data = { group, facts, isOff, isChosen: isChosen("service", id), select };
    if (facts !== undefined) nodes.push(nodeOf(`s ${id}`, "service", box, data));
  }
  for (const [name, box] of layout.machines) {
    const isOff = path !== undefined && !path.machines.has(name);
    const host = hosts.get(name);
    const data = { host, isOff, isChosen: isChosen("machine", name), select };
    if (host !== undefined) nodes.push(nodeOf(`m ${name}`, look, box, data));
  }
  return kept(nodes, before, (a, b) => isShallowEqual(a.position, b.position));
}

export function edgesOf(
  layout: Layout,
  { groups, figures, levels, path }: Shown,
  hasAll: boolean,
  before: readonly Edge[],
): Edge[] {
  const edges = groups.flatMap((group): Edge[] => {
    const facts = figures.get(group.id);
    if (facts === undefined) return [];
    const { id, machines } = group;
    const { tokensPerSecond, requestsInFlight } = facts;
    const isOff = path !== undefined && !path.groups.has(id);
    const width = edgeWidth(tokensPerSecond, requestsInFlight);
    const share = 1 / Math.max(1, machines.length);
    const thin = edgeWidth(share * tokensPerSecond, share * requestsInFlight);
    const isAside = (name: string) => isOff || (path !== undefined && !path.machines.has(name));
    const isDrawn = (name: string) => hasAll || (path !== undefined && !isAside(name));
    return [
      edgeOf(`g ${id}`, "gateway", "gateway", `s ${id}`, {
        width,
        isOff,
        isOn: path !== undefined && !isOff,
      }),
      ...machines
        .filter((name) => layout.machines.has(name) && isDrawn(name))
        .map((name) => {
          const key = edgeKey(id, name);
          const isOff = isAside(name);
          const isOn = path !== undefined && !isOff;
          const data = { level: levels.get(key), width: thin, isOff, isOn };
          return edgeOf(key, "traffic", `s ${id}`, `m ${name}`, data);
        }),
    ];
  });
  return kept(edges, before, () => true);
}

function nodeOf(id: string, type: string, { x, y, width, height }: Box, data: Record<string, unknown>): Node {
  const zIndex = type === "frame" ? -1 : 1;
  // With `measured`, changed data do not have the card measured again.
  return { id, type, position: { x, y }, width, height, measured: { width, height }, data, zIndex };
}

function edgeOf(id: string, type: string, source: string, target: string, data: EdgeData): Edge {
  return { id, type, source, target, data };
}

function kept<T extends Node | Edge>(
  now: readonly T[],
  before: readonly T[],
  isSame: (a: T, b: T) => boolean,
): T[] {
  const byId = new Map(before.map((one) => [one.id, one]));
  return now.map((one) => {
    const old = byId.get(one.id);
    if (old === undefined || old.type !== one.type || !isSame(old, one)) return one;
    return isShallowEqual(old.data ?? {}, one.data ?? {}) ? old : one;
  });
}
