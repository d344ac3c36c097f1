/** The canvas of a chart, by uPlot: theme colors, resize, and the values at the pointer. */

import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useTheme } from "../theme.ts";
import { pointValues, stacked } from "./stacked.ts";

const AXIS_PX = 48;
const TIME_AXIS_PX = 28;
const DAY_S = 86_400;
const MIN_RANGE_S = 300;
const DAYS = [1, 2, 3, 7, 14, 30, 60].map((days) => days * DAY_S);
const DASHES = [[], [6, 4], [2, 3], [8, 3, 2, 3], [4, 2], [10, 4]];
const BAR_WIDTH: [number, number] = [0.7, 48];
const dayFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });
const shortDayFormat = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  timeZone: "UTC",
});
const minuteFormat = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const timeFormat = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

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

export function ChartPlot(props: ChartProps & { readonly height: number }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const [at, setAt] = useState<{ readonly index: number; readonly left: number }>();
  const theme = useTheme();
  const { times, series, kind, height } = props;
  const shape = `${kind} ${height} ${theme} ${props.isDaily} ${series.map(({ label, color }) => label + color).join()}`;
  const latest = useRef(props);
  latest.current = props;
  // biome-ignore lint/correctness/useExhaustiveDependencies: values are set below; only another shape needs a new plot
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const made = new uPlot(optionsOf(latest.current, element, setAt), dataOf(latest.current), element);
    plot.current = made;
    const observer = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: latest.current.height ?? 0 }),
    );
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [shape]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the plot shows the newest values
  useEffect(() => plot.current?.setData(dataOf(latest.current)), [times, series]);
  return (
    <div className="chart-plot" ref={box}>
      {at !== undefined && <Tip {...props} index={at.index} left={at.left} />}
    </div>
  );
}

function Tip({
  times,
  series,
  format,
  isDaily = false,
  index,
  left,
}: ChartProps & { readonly index: number; readonly left: number }) {
  const time = times[index];
  if (time === undefined) return null;
  const side =
    left > 320 ? { right: `calc(100% - ${left + AXIS_PX - 12}px)` } : { left: left + AXIS_PX + 12 };
  return (
    <div className="chart-tip" style={side}>
      <strong>{(isDaily ? dayFormat : timeFormat).format(time * 1_000)}</strong>
      {pointValues(series, index).map(({ label, value }) => (
        <div key={label} className="spread">
          <bdi className="muted">{label}</bdi>
          <span className="number">{value === null ? "–" : format(value)}</span>
        </div>
      ))}
    </div>
  );
}

/** A bar stands in the middle of its day; times are labeled by the minute. */
function rangeOf(first: number, last: number, isDaily: boolean): [number, number] {
  return isDaily ? [first - DAY_S / 2, last + DAY_S / 2] : [Math.min(first, last - MIN_RANGE_S), last];
}

function dataOf({ times, series, kind }: ChartProps): uPlot.AlignedData {
  const values = series.map((one) => one.values);
  // The sum of all is drawn first, and the smaller sums over it.
  const drawn = kind === "bars" ? stacked(values).toReversed() : values;
  return [times, ...drawn] as unknown as uPlot.AlignedData;
}

function optionsOf(
  { series, kind, format, isDaily = false, height = 0 }: ChartProps,
  element: HTMLElement,
  setAt: (at: { index: number; left: number } | undefined) => void,
): uPlot.Options {
  const style = getComputedStyle(element);
  const color = (token: string) => style.getPropertyValue(token).trim();
  const axis = {
    stroke: color("--muted"),
    font: `11px ${color("--font")}`,
    grid: { stroke: color("--line"), width: 1 },
    ticks: { show: false },
  };
  const drawn = kind === "bars" ? series.toReversed() : series;
  const bars = uPlot.paths.bars?.({ size: BAR_WIDTH });
  return {
    width: element.clientWidth,
    height,
    legend: { show: false },
    cursor: { y: false, points: { show: false } },
    ...(isDaily && { tzDate: (seconds: number) => uPlot.tzDate(new Date(seconds * 1_000), "Etc/UTC") }),
    scales: {
      x: { range: (_, first, last) => rangeOf(first, last, isDaily) },
      y: { range: (_, __, most) => [0, most <= 0 ? 1 : most * 1.05] },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: TIME_AXIS_PX,
        ...(isDaily && { incrs: DAYS }),
        values: (_: unknown, ticks: number[]) =>
          ticks.map((tick) => (isDaily ? shortDayFormat : minuteFormat).format(tick * 1_000)),
      },
      { ...axis, size: AXIS_PX, values: (_, ticks) => ticks.map((tick) => format(tick)) },
    ],
    series: [
      {},
      ...drawn.map(({ label, color: token }, index) => ({
        label,
        stroke: color(token),
        width: kind === "bars" ? 0 : 1.5,
        // A line needs two points.
        points: { show: (_: uPlot, __: number, first: number, last: number) => first === last },
        ...(kind === "bars"
          ? { fill: color(token), ...(bars !== undefined && { paths: bars }) }
          : { dash: DASHES[index % DASHES.length] ?? [] }),
      })),
    ],
    hooks: {
      setCursor: [
        ({ cursor: { idx, left = -1 } }) =>
          setAt(typeof idx === "number" && left >= 0 ? { index: idx, left } : undefined),
      ],
    },
  };
}
