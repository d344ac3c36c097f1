/** A farm of hundreds of machines: one cell each, colored by state and filled by memory, beside the services. */
import { Link } from "@tanstack/react-router";
import { type KeyboardEvent, memo, useMemo, useState } from "react";
import type { HostRow } from "../../../../../src/console/rows.ts";
import { hrefOfMachine } from "../../../address/href.ts";
import { keepNamespace } from "../../../address/search.ts";
import { formatCount, formatPercent, formatRate } from "../../../parts/format.ts";
import { State } from "../../../parts/state.tsx";
import { texts } from "../../../texts/topology.ts";
import type { Figures, ServiceFacts } from "../graph/figures.ts";
import type { ChosenPath, Level, MachineId, Selection, ServiceGroup } from "../graph/graph.ts";
import { cellAfter, claimedShare, legendOf } from "./cells.ts";
import "./heat.css";

/** Size of a cell with its gap. */
const CELL_PX = 22;
const GAP_PX = 2;

type Select = (selection: Selection | undefined) => void;

interface Shown {
  readonly groups: readonly ServiceGroup[];
  readonly figures: Figures;
  readonly hosts: ReadonlyMap<string, HostRow>;
  readonly selection: Selection | undefined;
  readonly path: ChosenPath | undefined;
  readonly select: Select;
}

export function HeatMap({
  machines,
  shown,
}: {
  readonly machines: readonly MachineId[];
  readonly shown: Shown;
}) {
  const { groups, figures, selection, path, select } = shown;
  return (
    <div className="heat">
      <section className="heat-lane" aria-label={texts.heatServices}>
        <h2>{texts.heatServices}</h2>
        {groups.length === 0 && <p className="muted">{texts.noServices}</p>}
        <ul className="heat-services">
          {groups.map((group) => (
            <ServiceLine
              key={group.id}
              group={group}
              facts={figures.get(group.id)}
              isChosen={selection?.kind === "service" && selection.id === group.id}
              isOff={path !== undefined && !path.groups.has(group.id)}
              select={select}
            />
          ))}
        </ul>
      </section>
      <section className="heat-machines" aria-label={texts.heat}>
        <div className="spread">
          <h2>{texts.heat}</h2>
          <span className="heat-scale muted small">
            {texts.less} <i aria-hidden /> {texts.more}
          </span>
        </div>
        <Legend hosts={shown.hosts} />
        <Chosen shown={shown} />
        <Cells machines={machines} shown={shown} />
      </section>
    </div>
  );
}

interface ServiceLineProps {
  readonly group: ServiceGroup;
  readonly facts: ServiceFacts | undefined;
  readonly isChosen: boolean;
  readonly isOff: boolean;
  readonly select: Select;
}

const ServiceLine = memo(({ group, facts, isChosen, isOff, select }: ServiceLineProps) => {
  const { id, name, namespace, services } = group;
  if (facts === undefined) return null;
  return (
    <li className={isOff ? "topo-off" : undefined}>
      <button
        type="button"
        className="heat-service"
        aria-pressed={isChosen}
        onClick={() => select(isChosen ? undefined : { kind: "service", id })}
      >
        <span className="heat-name">
          <bdi className="truncate">{name}</bdi>
          <bdi className="muted small truncate">{namespace}</bdi>
        </span>
        <span className="heat-figures">
          <State state={facts} />
          <span className="muted small number">
            {texts.services(formatCount(services.length))}
            {facts.tokensPerSecond > 0 && ` · ${texts.tokens(formatRate(facts.tokensPerSecond))}`}
          </span>
        </span>
      </button>
    </li>
  );
});

function Legend({ hosts }: { readonly hosts: ReadonlyMap<string, HostRow> }) {
  const entries = useMemo(() => legendOf(hosts.values()), [hosts]);
  return (
    <ul className="heat-legend small">
      {entries.map(({ word, level, count }) => (
        <li key={word}>
          <i className={`heat-${level}`} aria-hidden />
          {word} <span className="muted number">{formatCount(count)}</span>
        </li>
      ))}
    </ul>
  );
}

function Cells({ machines, shown }: { readonly machines: readonly MachineId[]; readonly shown: Shown }) {
  const { hosts, path, selection, select } = shown;
  const [focused, setFocused] = useState(0);
  const tabStop = Math.min(focused, machines.length - 1);
  const move = (event: KeyboardEvent<HTMLElement>): void => {
    const perRow = Math.max(1, Math.floor((event.currentTarget.clientWidth + GAP_PX) / CELL_PX));
    const next = cellAfter(event.key, tabStop, machines.length, perRow);
    if (next === undefined) return;
    event.preventDefault();
    setFocused(next);
    event.currentTarget.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus();
  };
  return (
    <>
      <p className="visually-hidden">{texts.heatHelp}</p>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the arrow keys of its buttons */}
      <div className="heat-cells" onKeyDown={move}>
        {machines.map(({ name }, index) => {
          const host = hosts.get(name);
          return host === undefined ? null : (
            <Cell
              key={name}
              index={index}
              name={name}
              level={host.state.level}
              word={host.state.word}
              share={Math.round(20 * claimedShare(host)) / 20}
              isTabStop={index === tabStop}
              isOff={path !== undefined && !path.machines.has(name)}
              isChosen={selection?.kind === "machine" && selection.id === name}
              select={select}
              onFocus={setFocused}
            />
          );
        })}
      </div>
    </>
  );
}

interface CellProps {
  readonly index: number;
  readonly name: string;
  readonly level: Level;
  readonly word: string;
  /** In steps of 5 %, so that small changes render nothing. */
  readonly share: number;
  readonly isTabStop: boolean;
  readonly isOff: boolean;
  readonly isChosen: boolean;
  readonly select: Select;
  readonly onFocus: (index: number) => void;
}

const Cell = memo((props: CellProps) => {
  const { index, name, level, word, share, isTabStop, isOff, isChosen, select, onFocus } = props;
  const label = texts.heatCell(name, word, formatPercent(share));
  return (
    <button
      type="button"
      className={`heat-cell heat-${level}${isOff ? " topo-off" : ""}`}
      data-index={index}
      tabIndex={isTabStop ? 0 : -1}
      title={label}
      aria-label={label}
      aria-pressed={isChosen}
      onFocus={() => onFocus(index)}
      onClick={() => select(isChosen ? undefined : { kind: "machine", id: name })}
    >
      <span style={{ height: `${100 * share}%` }} />
    </button>
  );
});

/** The line above the cells has its place before something is chosen: nothing moves. */
function Chosen({ shown: { selection, hosts, path } }: { readonly shown: Shown }) {
  const host = selection?.kind === "machine" ? hosts.get(selection.id) : undefined;
  return (
    <p className="heat-chosen small" aria-live="polite">
      {selection === undefined && <span className="muted">{texts.choose}</span>}
      {selection?.kind === "service" && texts.onMachines(formatCount(path?.machines.size ?? 0))}
      {host !== undefined && (
        <>
          <Link to={hrefOfMachine(host) as "/"} search={keepNamespace}>
            <bdi>{host.name}</bdi>
          </Link>
          <State state={host.state} />
          <span className="muted number">{texts.claimed(formatPercent(claimedShare(host)))}</span>
        </>
      )}
      {selection !== undefined && <span className="muted">{texts.release}</span>}
    </p>
  );
}
