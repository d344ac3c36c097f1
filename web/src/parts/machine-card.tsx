/** A machine as a card: its name and state, what it is, its memory and some facts. */
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { HostRow } from "../../../src/console/rows.ts";
import { hrefOfMachine } from "../address/href.ts";
import { keepNamespace } from "../address/search.ts";
import type { Fact } from "./facts.tsx";
import { MemoryBar, type MemoryBarProps } from "./memory-bar.tsx";
import { State, Tag } from "./state.tsx";

/** A reader who may not list hosts knows neither their state nor their pressure. */
export type CardMachine = MemoryBarProps["host"] &
  Pick<HostRow, "kind" | "isStale"> &
  Partial<Pick<HostRow, "state" | "pressure">>;

export function MachineCard({
  machine,
  about,
  facts,
  children,
}: {
  readonly machine: CardMachine;
  /** Empty texts are left out. */
  readonly about: readonly string[];
  readonly facts: readonly Fact[];
  readonly children?: ReactNode;
}) {
  return (
    <Link to={hrefOfMachine(machine) as "/"} search={keepNamespace} className="card machine-card">
      <div className="spread">
        <h2 className="truncate">{machine.name}</h2>
        {machine.state !== undefined && <State state={machine.state} />}
      </div>
      <p className="muted small">{about.filter(Boolean).join(" · ")}</p>
      <MemoryBar host={machine} />
      <dl className="machine-card-facts small">
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd className="truncate">{value}</dd>
          </div>
        ))}
      </dl>
      <Marks machine={machine} />
      {children}
    </Link>
  );
}

/** What the state does not say. */
function Marks({ machine: { isCordoned, isStale, pressure, state } }: { readonly machine: CardMachine }) {
  const isPressed = pressure === "Warning" || pressure === "Critical";
  const hasStale = isStale && state?.level !== "bad";
  const hasCordoned = isCordoned && state?.level !== "idle";
  if (!hasCordoned && !hasStale && !isPressed) return null;
  return (
    <div className="row">
      {hasStale && <Tag level="warn">Stale</Tag>}
      {hasCordoned && <Tag>Cordoned</Tag>}
      {isPressed && (
        <Tag level={pressure === "Critical" ? "bad" : "warn"}>{`Memory pressure: ${pressure}`}</Tag>
      )}
    </div>
  );
}
