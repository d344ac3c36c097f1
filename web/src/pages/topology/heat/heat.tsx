/** A farm of hundreds of machines: one cell each, colored by state and filled by memory, beside the services. */
import { type KeyboardEvent, memo, useState } from "react";
import type { HostRow } from "../../../../../src/console/rows.ts";
import { formatCount, formatPercent, formatRate } from "../../../parts/format.ts";
import { State } from "../../../parts/state.tsx";
import { texts } from "../../../texts/topology.ts";
import { useFacts } from "../graph/facts.ts";
import { factsOf, type Level, type Selection, type ServiceGroup } from "../graph/graph.ts";
import type { MachineId } from "../graph/layout.ts";
import "./heat.css";

/** Of --heat-cell and its gap. */
const CELL_PX = 22;

export function HeatMap({
  groups,
  machines,
}: {
  readonly groups: readonly ServiceGroup[];
  readonly machines: readonly MachineId[];
}) {
  return (
    <div className="heat">
      <ul className="heat-services">
        {groups.map((group) => (
          <li key={group.id}>
            <ServiceLine group={group} />
          </li>
        ))}
      </ul>
      <Cells machines={machines} />
    </div>
  );
}

function ServiceLine({ group }: { readonly group: ServiceGroup }) {
  const { serviceOf, selection, path, select } = useFacts();
  const facts = factsOf(group, serviceOf);
  const isChosen = selection?.kind === "service" && selection.id === group.id;
  const isOff = path !== undefined && !path.groups.has(group.id);
  return (
    <button
      type="button"
      className={`heat-service${isOff ? " topo-off" : ""}`}
      aria-pressed={isChosen}
      onClick={() => select(isChosen ? undefined : { kind: "service", id: group.id })}
    >
      <bdi className="truncate">{group.label}</bdi>
      <span className="muted small number">
        {texts.services(formatCount(group.services.length))}
        {facts.tokensPerSecond > 0 && ` · ${texts.tokens(formatRate(facts.tokensPerSecond))}`}
      </span>
      <State state={facts} />
    </button>
  );
}

function Cells({ machines }: { readonly machines: readonly MachineId[] }) {
  const { machineOf, path, selection, select } = useFacts();
  const [focused, setFocused] = useState(0);
  const move = (event: KeyboardEvent<HTMLElement>): void => {
    const perRow = Math.max(1, Math.floor(event.currentTarget.clientWidth / CELL_PX));
    const steps: Readonly<Record<string, number>> = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: perRow,
      ArrowUp: -perRow,
    };
    const step = steps[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = Math.min(machines.length - 1, Math.max(0, focused + step));
    setFocused(next);
    event.currentTarget.querySelector<HTMLElement>(`[data-index="${next}"]`)?.focus();
  };
  return (
    <section className="heat-machines" aria-label={texts.heat}>
      <div className="spread">
        <h2>{texts.heat}</h2>
        <span className="heat-scale muted small">
          {texts.less} <i /> {texts.more}
        </span>
      </div>
      <p className="visually-hidden">{texts.heatHelp}</p>
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the arrow keys of its buttons */}
      <div className="heat-cells" onKeyDown={move}>
        {machines.map(({ name }, index) => {
          const host = machineOf(name);
          return host === undefined ? null : (
            <Cell
              key={name}
              index={index}
              name={name}
              level={host.state.level}
              word={host.state.word}
              share={Math.round(20 * claimedShare(host)) / 20}
              isTabStop={index === focused}
              isOff={path !== undefined && !path.machines.has(name)}
              isChosen={selection?.kind === "machine" && selection.id === name}
              select={select}
            />
          );
        })}
      </div>
    </section>
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
  readonly select: (selection: Selection | undefined) => void;
}

const Cell = memo(({ index, name, level, word, share, isTabStop, isOff, isChosen, select }: CellProps) => {
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
      onClick={() => select(isChosen ? undefined : { kind: "machine", id: name })}
    >
      <span style={{ height: `${100 * share}%` }} />
    </button>
  );
});

function claimedShare({ claims, budgetBytes, reserveBytes }: HostRow): number {
  const usable = budgetBytes - reserveBytes;
  if (usable <= 0) return 0;
  return Math.min(1, claims.reduce((sum, { bytes }) => sum + bytes, 0) / usable);
}
