/** The map. Places are computed when the set of services and machines changes, not with their figures. */
import { Controls, type Edge, type Node, ReactFlow } from "@xyflow/react";
import { useMemo } from "react";
import { texts } from "../../../texts/topology.ts";
import type { Selection, ServiceGroup } from "../graph/graph.ts";
import { type Box, type Layout, layOut, MAX_CARDS, type MachineId } from "../graph/layout.ts";
import { TrafficEdge } from "./edges.tsx";
import { FrameNode, GatewayNode, MachineBarNode, MachineCardNode, ServiceNode } from "./nodes.tsx";
import "@xyflow/react/dist/base.css";
import "./map.css";

const nodeTypes = {
  gateway: GatewayNode,
  service: ServiceNode,
  card: MachineCardNode,
  bar: MachineBarNode,
  frame: FrameNode,
};
const edgeTypes = { traffic: TrafficEdge };
/** More are drawn only for the chosen path: they cannot be distinguished, and they cost frames. */
const MAX_EDGES = 600;

export function TopologyMap({
  groups,
  machines,
  selection,
  onRelease,
}: {
  readonly groups: readonly ServiceGroup[];
  readonly machines: readonly MachineId[];
  readonly selection: Selection | undefined;
  readonly onRelease: () => void;
}) {
  const look = machines.length > MAX_CARDS ? "bar" : "card";
  const layout = useMemo(() => layOut(groups, machines, look), [groups, machines, look]);
  const nodes = useMemo(() => nodesOf(layout, look), [layout, look]);
  const all = useMemo(() => edgesOf(groups, layout), [groups, layout]);
  const isDense = all.length > MAX_EDGES;
  const edges = useMemo(() => (isDense ? all.filter(isOn(selection)) : all), [isDense, all, selection]);
  return (
    <div className="topo-map">
      <div className="topo-canvas">
        <ReactFlow
          // A new set of cards is shown as a whole.
          key={`${groups.length} ${machines.length}`}
          nodes={nodes}
          edges={edges}
          nodeTypes={nodeTypes}
          edgeTypes={edgeTypes}
          onPaneClick={onRelease}
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          zoomOnDoubleClick={false}
          deleteKeyCode={null}
          minZoom={0.05}
          maxZoom={1.5}
          fitView
          fitViewOptions={{ padding: 0.04, maxZoom: 1 }}
        >
          <Controls showInteractive={false} aria-label={texts.zoomHelp} />
        </ReactFlow>
      </div>
      {isDense && selection === undefined && <p className="topo-note muted small">{texts.dense}</p>}
      {selection !== undefined && <p className="topo-note muted small">{texts.release}</p>}
    </div>
  );
}

function nodesOf({ gateway, services, machines, frames }: Layout, look: "card" | "bar"): Node[] {
  return [
    ...frames.map((frame) => nodeOf(`frame ${frame.kind}`, "frame", frame, texts.frames[frame.kind])),
    nodeOf("gateway", "gateway", gateway, "gateway"),
    ...[...services].map(([id, box]) => nodeOf(`s ${id}`, "service", box, id)),
    ...[...machines].map(([name, box]) => nodeOf(`m ${name}`, look, box, name)),
  ];
}

function nodeOf(id: string, type: string, { x, y, width, height }: Box, name: string): Node {
  return { id, type, position: { x, y }, width, height, data: { name }, zIndex: type === "frame" ? -1 : 1 };
}

function edgesOf(groups: readonly ServiceGroup[], { machines }: Layout): Edge[] {
  return groups.flatMap(({ id, machines: names }) => [
    { id: `g ${id}`, type: "traffic", source: "gateway", target: `s ${id}`, data: { group: id } },
    ...names
      .filter((name) => machines.has(name))
      .map((machine) => ({
        id: `${id} ${machine}`,
        type: "traffic",
        source: `s ${id}`,
        target: `m ${machine}`,
        data: { group: id, machine },
      })),
  ]);
}

function isOn(selection: Selection | undefined) {
  return ({ data }: Edge): boolean => {
    const { group, machine } = data as { readonly group: string; readonly machine?: string };
    if (selection === undefined) return machine === undefined;
    return selection.kind === "service"
      ? group === selection.id
      : machine === undefined || machine === selection.id;
  };
}
