/** What a reader fills in. */
import { type ReactNode, useEffect, useId, useState } from "react";
import { WithCommands } from "./buttons.tsx";

export interface FieldAttributes {
  readonly id: string;
  /** Not `required`, whose message the browser shows in its own words. */
  readonly "aria-required": boolean;
  readonly "aria-invalid": boolean;
  readonly "aria-describedby": string;
}

/** A field with its label, its help and what is wrong with it. */
export function Field({
  label,
  help,
  fault,
  isRequired = false,
  children,
}: {
  readonly label: string;
  readonly help?: string;
  readonly fault: string | undefined;
  readonly isRequired?: boolean;
  readonly children: (field: FieldAttributes) => ReactNode;
}) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id} className="small muted">
        {isRequired ? `${label} (required)` : label}
      </label>
      {children({
        id,
        "aria-required": isRequired,
        "aria-invalid": fault !== undefined,
        "aria-describedby": `${id}-note`,
      })}
      <span id={`${id}-note`} className="small">
        {fault !== undefined && (
          <span className="field-error">
            <WithCommands text={fault} />
          </span>
        )}
        {fault === undefined && help !== undefined && <span className="small muted">{help}</span>}
      </span>
    </div>
  );
}

/** A value that follows an input once it rests. */
export function useDebounced<T>(value: T, ms = 200): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return settled;
}
