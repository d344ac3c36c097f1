/** A line of key figures, each with its label, its value, and what it is compared with. */
import type { ReactNode } from "react";
import "./figures.css";

export function Figures({ children }: { readonly children: ReactNode }) {
  return <dl className="figures">{children}</dl>;
}

export function Figure({
  label,
  value,
  detail,
  aside,
}: {
  readonly label: string;
  readonly value: string;
  /** Small, after the value. */
  readonly detail?: ReactNode;
  /** Below the value. */
  readonly aside?: ReactNode;
}) {
  return (
    <div className="figure">
      <dt>{label}</dt>
      <dd>
        <span className="figure-value">{value}</span>
        {detail !== undefined && <span className="muted small number">{detail}</span>}
      </dd>
      {aside !== undefined && <dd>{aside}</dd>}
    </div>
  );
}
