/** The map. Places are computed when the set of services and machines changes, not with their figures. */
import { Controls, type Edge, type Node, ReactFlow, type ReactFlowInstance } from "@xyflow/react";
import { type FocusEvent, useEffect, useMemo, useRef, useState } from "react";
import type { MachineId } from "../graph/graph.ts";
import { layOut, MAX_CARDS, startOf } from "../graph/layout.ts";
import { edgesOf, nodesOf, type Shown } from "./elements.ts";
import {
  FrameNode,
  GatewayEdge,
  GatewayNode,
  MachineBarNode,
  MachineCardNode,
  ServiceNode,
  TrafficEdge,
} from "./nodes.tsx";
import "@xyflow/react/dist/base.css";
import "./map.css";

const nodeTypes = {
  gateway: GatewayNode,
  service: ServiceNode,
  card: MachineCardNode,
  bar: MachineBarNode,
  frame: FrameNode,
};
const edgeTypes = { traffic: TrafficEdge, gateway: GatewayEdge };
/** More are drawn only for the chosen path: they cannot be distinguished, and they cost frames. */
const MAX_EDGES = 250;

export function TopologyMap({
  machines,
  shown,
  filter,
}: {
  readonly machines: readonly MachineId[];
  readonly shown: Shown;
  /** Another one shows the map from its start. */
  readonly filter: string;
}) {
  const { groups, selection, select } = shown;
  const look = machines.length > MAX_CARDS ? "bar" : "card";
  const layout = useMemo(() => layOut(groups, machines, look), [groups, machines, look]);
  const hasAll =
    layout.isOneColumn && groups.reduce((sum, group) => sum + group.machines.length, 0) <= MAX_EDGES;
  const lastNodes = useRef<Node[]>([]);
  const nodes = useMemo(() => {
    lastNodes.current = nodesOf(layout, look, shown, lastNodes.current);
    return lastNodes.current;
  }, [layout, look, shown]);
  const lastEdges = useRef<Edge[]>([]);
  const edges = useMemo(() => {
    lastEdges.current = edgesOf(layout, shown, hasAll, lastEdges.current);
    return lastEdges.current;
  }, [layout, shown, hasAll]);
  const canvas = useRef<HTMLDivElement>(null);
  const [flow, setFlow] = useState<ReactFlowInstance>();
  const [isCut, setIsCut] = useState(false);
  useEffect(() => setIsCut(startOf(layout, sizeOf(canvas.current)).isCut), [layout]);
  const begin = (instance: ReactFlowInstance): void => {
    setFlow(instance);
    void instance.setViewport(startOf(layout, sizeOf(canvas.current)));
  };
  const reveal = ({ target }: FocusEvent<HTMLElement>): void => {
    const id = target.closest<HTMLElement>(".react-flow__node")?.dataset.id;
    if (flow === undefined || id === undefined || !target.matches(":focus-visible")) return;
    const { position, width = 0, height = 0 } = flow.getNode(id) ?? { position: { x: 0, y: 0 } };
    const center = { x: position.x + width / 2, y: position.y + height / 2 };
    if (!isInside(canvas.current, target)) void flow.setCenter(center.x, center.y, { zoom: flow.getZoom() });
  };
  return (
    <div className="topo-map">
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the focus of its buttons */}
      <div className="topo-canvas" ref={canvas} onFocus={reveal}>
        <ReactFlow
          key={`${look} ${filter}`}
          nodes={nodes}
          edges={edges}
          nodeTypes={nodeTypes}
          edgeTypes={edgeTypes}
          onInit={begin}
          onPaneClick={() => select(undefined)}
          nodesDraggable={false}
          nodesConnectable={false}
          nodesFocusable={false}
          edgesFocusable={false}
          elementsSelectable={false}
          zoomOnDoubleClick={false}
          panOnScroll
          deleteKeyCode={null}
          minZoom={0.1}
          maxZoom={1.5}
          fitViewOptions={{ padding: 0.04, maxZoom: 1 }}
        >
          <Controls
            position="bottom-right"
            showInteractive={false}
            aria-label="Drag or scroll to move, Ctrl and scroll to zoom."
          />
        </ReactFlow>
      </div>
      <p className="topo-note muted small" aria-live="polite">
        {noteOf(selection !== undefined, hasAll)}{" "}
        {isCut &&
          `The map of ${machines.length} machines is larger than the screen: scroll to move, or narrow it by namespace or state.`}
      </p>
    </div>
  );
}

function noteOf(isChosen: boolean, hasAllEdges: boolean): string {
  if (isChosen) return "Escape shows everything again.";
  return hasAllEdges
    ? "Choose a service or a machine to see only its path."
    : "Choose a service or a machine to see its edges.";
}

function sizeOf(canvas: HTMLElement | null) {
  return { width: canvas?.clientWidth ?? 0, height: canvas?.clientHeight ?? 0 };
}

function isInside(canvas: HTMLElement | null, card: HTMLElement): boolean {
  if (canvas === null) return true;
  const [outer, inner] = [canvas.getBoundingClientRect(), card.getBoundingClientRect()];
  return (
    inner.top >= outer.top &&
    inner.bottom <= outer.bottom &&
    inner.left >= outer.left &&
    inner.right <= outer.right
  );
}
