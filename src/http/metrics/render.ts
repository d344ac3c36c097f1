/** Renders families in the text format of Prometheus. Pure. */
import type { HistogramSample, Labels, MetricFamily } from "./family.ts";

export const METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Number of lines that are joined at once. Single lines of a large page would leave the young heap and cause full garbage collections. */
const LINES_AT_ONCE = 64;

export function renderFamilies<Facts>(families: readonly MetricFamily<Facts>[], facts: Facts): string {
  const parts: string[] = [];
  let lines: string[] = [];
  for (const line of linesOf(families, facts)) {
    lines.push(line);
    if (lines.length < LINES_AT_ONCE) continue;
    parts.push(lines.join(""));
    lines = [];
  }
  return [...parts, ...lines].join("");
}

function* linesOf<Facts>(families: readonly MetricFamily<Facts>[], facts: Facts): Iterable<string> {
  for (const family of families) {
    const { name, help, type } = family;
    yield `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n`;
    if (family.type === "histogram")
      for (const sample of family.read(facts)) yield* histogramLines(name, sample);
    else for (const { labels, value } of family.read(facts)) yield lineOf(name, labels, value);
  }
}

function* histogramLines(name: string, { labels, histogram }: HistogramSample): Iterable<string> {
  const { bounds, counts, sum } = histogram;
  let count = 0;
  for (const [index, inBucket] of counts.entries()) {
    count += inBucket;
    const bound = bounds[index];
    const le = bound === undefined ? "+Inf" : boundText(bound);
    yield lineOf(`${name}_bucket`, { ...labels, le }, count);
  }
  yield lineOf(`${name}_sum`, labels, sum);
  yield lineOf(`${name}_count`, labels, count);
}

/** As Prometheus 3 writes it (`1.0`), so that the label is the same in earlier versions, which keep the text. */
export function boundText(bound: number): string {
  return Number.isInteger(bound) ? bound.toFixed(1) : String(bound);
}

function lineOf(name: string, labels: Labels = {}, value: number): string {
  let pairs = "";
  for (const label in labels) pairs += `${pairs === "" ? "" : ","}${label}="${escaped(labels[label] ?? "")}"`;
  return `${name}${pairs === "" ? "" : `{${pairs}}`} ${numberText(value)}\n`;
}

function escaped(value: string): string {
  if (!/[\\\n"]/.test(value)) return value;
  return value.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll('"', '\\"');
}

function numberText(value: number): string {
  return Number.isFinite(value) ? `${value}` : String(value).replace("Infinity", "Inf");
}
