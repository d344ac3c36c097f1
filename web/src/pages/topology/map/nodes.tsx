/** The cards and edges of the map. */

import {
  BaseEdge,
  type EdgeProps,
  getBezierPath,
  getSmoothStepPath,
  Handle,
  type NodeProps,
  Position,
} from "@xyflow/react";
import { ArrowUpRight, Route } from "lucide-react";
import { memo } from "react";
import { hrefOfMachine, To } from "../../../address/to.tsx";
import { formatCount, formatRate } from "../../../parts/format.ts";
import { MemoryBar } from "../../../parts/machines.tsx";
import { State } from "../../../parts/states.tsx";
import type { Selection } from "../graph/graph.ts";
import type { EdgeData, FrameData, GatewayData, MachineData, ServiceData } from "./elements.ts";

export const GatewayNode = memo(({ data }: NodeProps) => (
  <div className="topo-card topo-gateway">
    <span className="row">
      <Route size={14} aria-hidden />
      <strong>Gateway</strong>
    </span>
    <span className="muted small number">{(data as GatewayData).line}</span>
    <Handle type="source" position={Position.Right} isConnectable={false} />
  </div>
));

export const ServiceNode = memo(({ data }: NodeProps) => {
  const { group, facts, ...card } = data as ServiceData;
  const { id, name, namespace, services } = group;
  const isOne = services.length === 1;
  return (
    <Card {...card} selection={{ kind: "service", id }} href={isOne ? `/services/${services[0]}` : undefined}>
      <span className="topo-head">
        <bdi className="truncate">{name}</bdi>
        <bdi className="topo-namespace muted small truncate">{namespace}</bdi>
      </span>
      <span className="topo-state">
        <State state={facts} />
      </span>
      <span className="topo-foot muted small number">
        <span>{isOne ? `${facts.ready}/${facts.desired}` : `${formatCount(services.length)} services`}</span>
        {facts.tokensPerSecond > 0 && <span>{formatRate(facts.tokensPerSecond)} tokens/s</span>}
        {facts.requestsInFlight > 0 && <span>{formatRate(facts.requestsInFlight)} in flight</span>}
      </span>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </Card>
  );
});

export const MachineCardNode = memo(({ data }: NodeProps) => {
  const { host, ...card } = data as MachineData;
  const { name, chip, cores, gpus, backend, fits } = host;
  return (
    <Card {...card} selection={{ kind: "machine", id: name }} href={hrefOfMachine(host)}>
      <span className="topo-head">
        <bdi className="truncate">{name}</bdi>
        <State state={host.state} />
      </span>
      <span className="muted small truncate">
        {[chip, `${cores} cores`, gpus > 0 ? (gpus === 1 ? "1 GPU" : `${gpus} GPUs`) : ""]
          .filter(Boolean)
          .join(" · ")}
      </span>
      <MemoryBar host={host} />
      <span className="topo-foot muted small number">
        <span>{backend}</span>
        {fits !== undefined && <span>{formatCount(fits)} fit</span>}
      </span>
      <Handle type="target" position={Position.Left} isConnectable={false} />
    </Card>
  );
});

export const MachineBarNode = memo(({ data }: NodeProps) => {
  const { host, ...card } = data as MachineData;
  const { name, state } = host;
  return (
    <Card {...card} selection={{ kind: "machine", id: name }} href={hrefOfMachine(host)} isThin>
      <span className={`topo-dot topo-${state.level}`} />
      <bdi className="small truncate">{name}</bdi>
      {state.level !== "ok" && <span className={`state tone-${state.level} small`}>{state.word}</span>}
      <MemoryBar host={host} hasLegend={false} />
      <Handle type="target" position={Position.Left} isConnectable={false} />
    </Card>
  );
});

export const FrameNode = memo(({ data }: NodeProps) => (
  <div className="topo-frame muted small">{(data as FrameData).kind === "Host" ? "Hosts" : "Nodes"}</div>
));

/** Chosen by click or Enter; dimmed if it is not on the chosen path. */
function Card({
  selection,
  isOff,
  isChosen,
  select,
  href,
  isThin = false,
  children,
}: {
  readonly selection: Selection;
  readonly isOff: boolean;
  readonly isChosen: boolean;
  readonly select: (selection: Selection | undefined) => void;
  readonly href?: string | undefined;
  readonly isThin?: boolean;
  readonly children: React.ReactNode;
}) {
  const look = `topo-card${isThin ? " topo-thin" : ""}${isOff ? " topo-off" : ""}`;
  return (
    <div className={look}>
      <button
        type="button"
        className="topo-choose"
        aria-pressed={isChosen}
        onClick={() => select(isChosen ? undefined : selection)}
      >
        <span className="visually-hidden">{selection.id}</span>
      </button>
      {children}
      {href !== undefined && (
        <To path={href} className="topo-open" aria-label={`Open ${selection.id}`}>
          <ArrowUpRight size={14} aria-hidden />
        </To>
      )}
    </div>
  );
}

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
