/** The edges of the map: width by traffic, color by state. */
import { BaseEdge, type EdgeProps, getBezierPath, getSmoothStepPath } from "@xyflow/react";
import { memo } from "react";
import type { EdgeData } from "./elements.ts";

/** Between a service and a machine. */
export const TrafficEdge = memo((props: EdgeProps) => {
  const [line] = getBezierPath(props);
  return <Line line={line} data={props.data as EdgeData} />;
});

/** From the gateway: one trunk, from which each service branches off. */
export const GatewayEdge = memo((props: EdgeProps) => {
  const [line] = getSmoothStepPath({ ...props, borderRadius: 8 });
  return <Line line={line} data={props.data as EdgeData} />;
});

function Line({
  line,
  data: { level, width, isOff, isOn },
}: {
  readonly line: string;
  readonly data: EdgeData;
}) {
  return (
    <BaseEdge
      path={line}
      className={`topo-edge topo-edge-${level ?? "plain"}${isOff ? " topo-edge-off" : isOn ? " topo-edge-on" : ""}`}
      style={{ strokeWidth: width }}
    />
  );
}
