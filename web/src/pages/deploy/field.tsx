/** A field with its label, its help and what is wrong with it. */
import { type ReactNode, useId } from "react";
import { WithCommands } from "../../parts/copy.tsx";

export interface FieldAttributes {
  readonly id: string;
  readonly "aria-invalid": boolean;
  readonly "aria-describedby": string;
}

export function Field({
  label,
  help,
  fault,
  children,
}: {
  readonly label: string;
  readonly help?: string;
  readonly fault: string | undefined;
  readonly children: (field: FieldAttributes) => ReactNode;
}) {
  const id = useId();
  return (
    <div className="field">
      <label htmlFor={id} className="small muted">
        {label}
      </label>
      {children({ id, "aria-invalid": fault !== undefined, "aria-describedby": `${id}-note` })}
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
