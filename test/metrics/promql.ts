/** What a PromQL expression asks for, by Prometheus' own grammar. */
import { parser } from "@prometheus-io/lezer-promql";

export interface Matcher {
  label: string;
  op: string;
  value: string;
}

export interface Selector {
  metric: string;
  readonly matchers: Matcher[];
}

export interface Query {
  readonly selectors: readonly Selector[];
  /** Labels of by, without, on, group_left and the like. */
  readonly grouping: readonly string[];
}

/** Grafana fills these in before Prometheus sees them. */
const GRAFANA_TIMES = /\$__(rate_interval|range|interval)/g;

/** Throws where the expression is no PromQL. */
export function parseQuery(expr: string): Query {
  const text = expr.replaceAll(GRAFANA_TIMES, "5m");
  const selectors: Selector[] = [];
  const grouping: string[] = [];
  let isGrouping = false;
  parser.parse(text).iterate({
    enter: ({ type: { name, isError }, from, to }) => {
      if (isError) throw new Error(`no PromQL from "${text.slice(from, from + 20)}": ${expr}`);
      const what = text.slice(from, to);
      if (name === "GroupingLabels") isGrouping = true;
      else if (name === "VectorSelector") selectors.push({ metric: "", matchers: [] });
      else if (isGrouping && name === "LabelName") grouping.push(what);
      else note(name, what, selectors.at(-1));
    },
    leave: ({ type: { name } }) => {
      if (name === "GroupingLabels") isGrouping = false;
    },
  });
  return { selectors, grouping };
}

function note(name: string, what: string, selector: Selector | undefined): void {
  const matcher = selector?.matchers.at(-1);
  if (name === "Identifier" && selector !== undefined) selector.metric = what;
  else if (name === "LabelName") selector?.matchers.push({ label: what, op: "", value: "" });
  else if (name === "MatchOp" && matcher !== undefined) matcher.op = what;
  else if (name === "StringLiteral" && matcher !== undefined) matcher.value = what.slice(1, -1);
}
