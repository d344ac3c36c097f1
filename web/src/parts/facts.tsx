/** Facts of one object: a label above each value. Those without a value are left out. */
import type { ReactNode } from "react";

export type Fact = readonly [label: string, value: ReactNode];

export function Facts({ facts }: { readonly facts: readonly Fact[] }) {
  return (
    <dl className="facts">
      {facts
        .filter(([, value]) => value !== undefined && value !== "")
        .map(([label, value]) => (
          <div key={label} className={isLong(value) ? "fact-long" : undefined}>
            <dt>{label}</dt>
            <dd>{typeof value === "string" ? <bdi>{value}</bdi> : value}</dd>
          </div>
        ))}
    </dl>
  );
}

const LONG = 28;

/** Such as the source of a model: gets the width of two facts. */
function isLong(value: ReactNode): boolean {
  return typeof value === "string" && value.length > LONG;
}
