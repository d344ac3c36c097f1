/** The edges of the map: width by traffic, color by state. */
import { BaseEdge, type EdgeProps, getBezierPath } from "@xyflow/react";
import { memo } from "react";
import { useFacts } from "../graph/facts.ts";
import { edgeWidth, factsOf } from "../graph/graph.ts";

/** `machine` is absent from the gateway's edge to a service. */
export interface EdgeData extends Record<string, unknown> {
  readonly group: string;
  readonly machine?: string;
}

export const TrafficEdge = memo((props: EdgeProps) => {
  const { groups, serviceOf, path } = useFacts();
  const { group: id, machine } = props.data as EdgeData;
  const group = groups.get(id);
  if (group === undefined) return null;
  const { level, tokensPerSecond, requestsInFlight } = factsOf(group, serviceOf);
  const share = machine === undefined ? 1 : 1 / Math.max(1, group.machines.length);
  const isOff =
    path !== undefined && !(path.groups.has(id) && (machine === undefined || path.machines.has(machine)));
  const [line] = getBezierPath(props);
  return (
    <BaseEdge
      path={line}
      className={`topo-edge topo-edge-${level}${isOff ? " topo-edge-off" : ""}`}
      style={{ strokeWidth: edgeWidth(share * tokensPerSecond, share * requestsInFlight) }}
    />
  );
});
