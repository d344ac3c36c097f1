/** Filters that can be on together, each with a count. The choice is in the URL, by the caller. */
import type { ReactNode } from "react";

export interface Chip {
  readonly id: string;
  readonly label: string;
  readonly count?: number;
  readonly icon?: ReactNode;
}

export function Chips({
  label,
  chips,
  chosen,
  onChange,
}: {
  readonly label: string;
  readonly chips: readonly Chip[];
  readonly chosen: readonly string[];
  readonly onChange: (chosen: readonly string[]) => void;
}) {
  const toggle = (id: string): void =>
    onChange(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]);
  return (
    <fieldset className="chips" aria-label={label}>
      {chips.map(({ id, label: name, count, icon }) => (
        <button
          key={id}
          type="button"
          className="chip"
          aria-pressed={chosen.includes(id)}
          onClick={() => toggle(id)}
        >
          {icon}
          {name}
          {count !== undefined && <span className="number muted">{count}</span>}
        </button>
      ))}
    </fieldset>
  );
}
