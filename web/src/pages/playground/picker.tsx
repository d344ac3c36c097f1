/** The choice of a service. One that cannot be asked is listed with its reason. */
import { Command } from "cmdk";
import { ChevronDown } from "lucide-react";
import { Popover } from "radix-ui";
import { useMemo, useState } from "react";
import type { StateWord } from "../../../../src/console/rows.ts";
import { cutReason, formatCount, formatCut } from "../../parts/format.ts";
import { State } from "../../parts/states.tsx";
import { hasWords } from "../../parts/table/filters.tsx";
import { canAsk, type Offer } from "./offers.ts";

/** More are found by typing. */
const MAX_SHOWN = 50;

export function Picker({
  offers,
  value,
  onChange,
}: {
  readonly offers: readonly Offer[];
  readonly value: string;
  readonly onChange: (service: string) => void;
}) {
  const [isOpen, setIsOpen] = useState(false);
  const chosen = offers.find(({ service }) => service === value);
  const choose = (service: string): void => {
    setIsOpen(false);
    onChange(service);
  };
  return (
    <Popover.Root open={isOpen} onOpenChange={setIsOpen}>
      <Popover.Trigger asChild>
        <button type="button" className="button picker">
          <span className="visually-hidden">Service: </span>
          <bdi className="truncate">{value === "" ? "Choose a service" : value}</bdi>
          {chosen !== undefined && <State state={stateOf(chosen)} />}
          <ChevronDown size={14} aria-hidden />
        </button>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content className="menu picker-list" align="start" sideOffset={4} collisionPadding={8}>
          <List offers={offers} onChoose={choose} />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function List({
  offers,
  onChoose,
}: {
  readonly offers: readonly Offer[];
  readonly onChoose: (service: string) => void;
}) {
  const [words, setWords] = useState("");
  const found = useMemo(
    () => offers.filter(({ service, names }) => hasWords([service, ...names], words)),
    [offers, words],
  );
  return (
    <Command label="Service" shouldFilter={false} loop>
      <Command.Input value={words} onValueChange={setWords} placeholder="Find a service" autoFocus />
      <Command.List>
        <Command.Empty className="picker-note muted">No service has this name.</Command.Empty>
        {found.slice(0, MAX_SHOWN).map((offer) => (
          <Command.Item
            key={offer.service}
            value={offer.service}
            disabled={!canAsk(offer)}
            className="menu-item picker-item"
            onSelect={() => onChoose(offer.service)}
          >
            <span className="spread">
              <bdi className="truncate">{offer.service}</bdi>
              <State state={stateOf(offer)} />
            </span>
            <span className="muted small picker-why">{noteOf(offer)}</span>
          </Command.Item>
        ))}
        {found.length > MAX_SHOWN && (
          <p className="picker-note muted small">{`${found.length - MAX_SHOWN} more: type to find them.`}</p>
        )}
      </Command.List>
    </Command>
  );
}

function stateOf({ row, state }: Offer): StateWord {
  if (row !== undefined) return row.state;
  const words = {
    ready: { word: "Ready", level: "ok" },
    idle: { word: "Idle", level: "idle" },
    starting: { word: "Starting", level: "busy" },
    off: { word: "Stopped", level: "idle" },
    "not offered": { word: "Unknown", level: "idle" },
  } as const;
  return words[state];
}

/** Why it cannot be asked, or what distinguishes it. */
function noteOf({ state, row, names, contextLength }: Offer): string {
  switch (state) {
    case "not offered":
      return "The gateway does not offer it to your key.";
    case "idle":
      return "Idle: the first request starts it.";
    case "starting":
      return row === undefined || row.message === "" ? "It is not ready." : row.message;
    case "off":
      return row === undefined || row.message === "" ? "Stopped: it takes no requests." : row.message;
    case "ready":
      return [
        names.length === 0 ? "" : `also ${names.join(", ")}`,
        row?.contextCut !== undefined
          ? `${formatCut(row.contextCut)} tokens of context: ${cutReason(row.contextCut)}`
          : contextLength === undefined
            ? ""
            : `${formatCount(contextLength)} tokens of context`,
      ]
        .filter(Boolean)
        .join(" · ");
    default:
      return state satisfies never;
  }
}
