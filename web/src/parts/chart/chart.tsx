/** A chart over time. The library is loaded with the first one. */

import { lazyRouteComponent } from "@tanstack/react-router";
import { Suspense } from "react";
import type { ChartProps, ChartSeries } from "./plot.tsx";

const HEIGHT = 200;
const Plot = lazyRouteComponent(() => import("./plot.tsx"), "ChartPlot");

export function Chart(props: ChartProps) {
  const { label, series, format, height = HEIGHT } = props;
  const summary = series.map((one) => summaryOf(one, format)).join("; ");
  return (
    <figure className="stack gap-8">
      <div role="img" aria-label={`${label}. ${summary}`} style={{ height }}>
        <Suspense>
          <Plot {...props} height={height} />
        </Suspense>
      </div>
      {series.length > 1 && (
        <figcaption className="wrap muted small">
          {series.map(({ label: name, color }) => (
            <span key={name} className="row">
              <span className="swatch" style={{ background: `var(${color})` }} />
              <bdi>{name}</bdi>
            </span>
          ))}
        </figcaption>
      )}
    </figure>
  );
}

function summaryOf({ label, values }: ChartSeries, format: (value: number) => string): string {
  const known = values.filter((value) => value !== null);
  const last = known.at(-1);
  if (last === undefined) return `${label}: no values`;
  const [least, most] = [Math.min(...known), Math.max(...known)];
  return `${label}: ${format(least)} to ${format(most)}, last ${format(last)}`;
}
