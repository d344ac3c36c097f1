/** What a chart shows. */

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
