/** A chart over time. The library is loaded with the first one. */
import { lazy, Suspense } from "react";
import "./chart.css";

export interface ChartSeries {
  readonly label: string;
  /** One for each time; null where nothing is known. */
  readonly values: readonly (number | null)[];
  /** A token such as `--series-1`. */
  readonly color: string;
}

export interface ChartProps {
  /** Says what is shown, before the summary of the values. */
  readonly label: string;
  /** Seconds since 1970, ascending. */
  readonly times: readonly number[];
  readonly series: readonly ChartSeries[];
  /** `bars` are stacked. */
  readonly kind: "line" | "bars";
  readonly format: (value: number) => string;
  /** Times are days in UTC. */
  readonly isDaily?: boolean;
  readonly height?: number;
}

const HEIGHT = 200;
const Plot = lazy(() => import("./chart-plot.tsx").then(({ ChartPlot }) => ({ default: ChartPlot })));

export function Chart(props: ChartProps) {
  const { label, series, format, height = HEIGHT } = props;
  const summary = series.map((one) => summaryOf(one, format)).join("; ");
  return (
    <figure className="chart">
      <div role="img" aria-label={`${label}. ${summary}`} style={{ height }}>
        <Suspense>
          <Plot {...props} height={height} />
        </Suspense>
      </div>
      {series.length > 1 && (
        <figcaption className="chart-legend small">
          {series.map(({ label: name, color }) => (
            <span key={name}>
              <span className="chart-swatch" style={{ background: `var(${color})` }} />
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
