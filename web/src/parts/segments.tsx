/** A choice of few, as buttons side by side. */
import type { ReactNode } from "react";

export interface SegmentOption {
  readonly id: string;
  readonly label: string;
  readonly icon?: ReactNode;
}

export function Segments({
  label,
  value,
  options,
  onChange,
}: {
  readonly label: string;
  readonly value: string;
  readonly options: readonly SegmentOption[];
  readonly onChange: (id: string) => void;
}) {
  return (
    <fieldset className="segments" aria-label={label}>
      {options.map(({ id, label: name, icon }) => (
        <button key={id} type="button" aria-pressed={id === value} onClick={() => onChange(id)}>
          {icon}
          {name}
        </button>
      ))}
    </fieldset>
  );
}
