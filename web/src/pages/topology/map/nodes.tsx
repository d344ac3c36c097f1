/** The cards of the map. */

import { Link } from "@tanstack/react-router";
import { Handle, type NodeProps, Position } from "@xyflow/react";
import { ArrowUpRight, Route } from "lucide-react";
import { memo } from "react";
import type { HostRow } from "../../../../../src/console/rows.ts";
import { keepNamespace } from "../../../address/search.ts";
import { formatCount, formatRate } from "../../../parts/format.ts";
import { MemoryBar } from "../../../parts/memory-bar.tsx";
import { State } from "../../../parts/state.tsx";
import { texts } from "../../../texts/topology.ts";
import { useFacts } from "../graph/facts.ts";
import { factsOf, type Selection } from "../graph/graph.ts";

/** The service's or machine's id. */
export interface CardData extends Record<string, unknown> {
  readonly name: string;
}

export const GatewayNode = memo(() => {
  const { groups, serviceOf, waiting, hasGateway } = useFacts();
  const sums = [...groups.values()].map((group) => factsOf(group, serviceOf));
  const tokens = sums.reduce((sum, { tokensPerSecond }) => sum + tokensPerSecond, 0);
  return (
    <div className="topo-card topo-gateway">
      <span className="row">
        <Route size={14} aria-hidden />
        <strong>{texts.gateway}</strong>
      </span>
      <span className="muted small number">
        {hasGateway
          ? `${texts.tokens(formatRate(tokens))} · ${texts.waiting(formatCount(waiting))}`
          : texts.gatewayNone}
      </span>
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </div>
  );
});

export const ServiceNode = memo(({ data }: NodeProps) => {
  const { name } = data as CardData;
  const { groups, serviceOf } = useFacts();
  const group = groups.get(name);
  if (group === undefined) return null;
  const facts = factsOf(group, serviceOf);
  const isOne = group.services.length === 1;
  return (
    <Card
      selection={{ kind: "service", id: name }}
      href={isOne ? `/services/${group.services[0]}` : undefined}
    >
      <span className="topo-head">
        <bdi className="truncate">{group.label}</bdi>
        <State state={facts} />
      </span>
      <span className="topo-foot muted small number">
        <span>
          {isOne
            ? texts.replicas(facts.ready, facts.desired)
            : texts.services(formatCount(group.services.length))}
        </span>
        {facts.tokensPerSecond > 0 && <span>{texts.tokens(formatRate(facts.tokensPerSecond))}</span>}
        {facts.requestsInFlight > 0 && <span>{texts.inFlight(formatRate(facts.requestsInFlight))}</span>}
      </span>
      <Handle type="target" position={Position.Left} isConnectable={false} />
      <Handle type="source" position={Position.Right} isConnectable={false} />
    </Card>
  );
});

export const MachineCardNode = memo(({ data }: NodeProps) => {
  const { name } = data as CardData;
  const host = useFacts().machineOf(name);
  if (host === undefined) return null;
  const { chip, cores, gpus, backend, fits } = host;
  return (
    <Card selection={{ kind: "machine", id: name }} href={hrefOfMachine(host)}>
      <span className="topo-head">
        <bdi className="truncate">{name}</bdi>
        <State state={host.state} />
      </span>
      <span className="muted small truncate">
        {[chip, texts.cores(cores), gpus > 0 ? texts.gpus(gpus) : ""].filter(Boolean).join(" · ")}
      </span>
      <MemoryBar
        name={name}
        budgetBytes={host.budgetBytes}
        reserveBytes={host.reserveBytes}
        claims={host.claims}
      />
      <span className="topo-foot muted small number">
        <span>{backend}</span>
        {fits !== undefined && <span>{texts.fits(formatCount(fits))}</span>}
      </span>
      <Handle type="target" position={Position.Left} isConnectable={false} />
    </Card>
  );
});

export const MachineBarNode = memo(({ data }: NodeProps) => {
  const { name } = data as CardData;
  const host = useFacts().machineOf(name);
  if (host === undefined) return null;
  return (
    <Card selection={{ kind: "machine", id: name }} isThin>
      <span className={`topo-dot topo-${host.state.level}`} title={host.state.word} />
      <bdi className="small truncate">{name}</bdi>
      <MemoryBar
        name={name}
        budgetBytes={host.budgetBytes}
        reserveBytes={host.reserveBytes}
        claims={host.claims}
        hasLegend={false}
      />
      <Handle type="target" position={Position.Left} isConnectable={false} />
    </Card>
  );
});

export const FrameNode = memo(({ data }: NodeProps) => (
  <div className="topo-frame muted small">{(data as CardData).name}</div>
));

/** Chosen by click or Enter; dimmed if it is not on the chosen path. */
function Card({
  selection,
  href,
  isThin = false,
  children,
}: {
  readonly selection: Selection;
  readonly href?: string | undefined;
  readonly isThin?: boolean;
  readonly children: React.ReactNode;
}) {
  const { path, selection: chosen, select } = useFacts();
  const ids = selection.kind === "service" ? path?.groups : path?.machines;
  const isOff = ids !== undefined && !ids.has(selection.id);
  const isChosen = chosen?.kind === selection.kind && chosen.id === selection.id;
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
        <Link
          to={href as "/"}
          search={keepNamespace}
          className="topo-open"
          aria-label={texts.open(selection.id)}
        >
          <ArrowUpRight size={14} aria-hidden />
        </Link>
      )}
    </div>
  );
}

function hrefOfMachine({ kind, name }: HostRow): string {
  return `/${kind === "Host" ? "hosts" : "nodes"}/${encodeURIComponent(name)}`;
}
