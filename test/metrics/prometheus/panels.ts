/** What the dashboards ask, as Grafana sends it to Prometheus. */
import { dashboards } from "../charts.ts";
import type { Prometheus } from "./server.ts";

export interface PanelQuery {
  readonly where: string;
  /** What Grafana filled in for the dashboard's variables. */
  readonly expr: string;
  readonly isInstant: boolean;
}

export type Variables = Readonly<Record<string, string>>;

/** Every query of every panel, with these values for the variables. */
export function panelQueries(variables: Variables): readonly PanelQuery[] {
  return dashboards().flatMap(({ title, panels }) =>
    panels.flatMap(({ title: panel, targets = [] }) =>
      targets.map(({ expr, legendFormat, instant }) => ({
        where: `${title}: ${panel}${legendFormat === "" ? "" : `: ${legendFormat}`}`,
        expr: fillIn(expr, variables),
        isInstant: instant === true,
      })),
    ),
  );
}

export interface VariableQuery {
  readonly where: string;
  readonly label: string;
  readonly selector: string;
}

/** What fills the lists at the top of a dashboard. */
export function variableQueries(variables: Variables): readonly VariableQuery[] {
  return dashboards().flatMap(({ title, templating }) =>
    templating.list.flatMap(({ name, query }) => {
      const text = typeof query === "string" ? query : query.query;
      const [, selector, label] = /^label_values\((.+), (\w+)\)$/.exec(text) ?? [];
      if (selector === undefined || label === undefined) return [];
      return [{ where: `${title}: ${name}`, label, selector: fillIn(selector, variables) }];
    }),
  );
}

/** Grafana's own: four scrapes that are one second apart, and what the dashboard shows. */
const TIMES: Variables = { __rate_interval: "10s", __range: "5m", __interval: "1s" };

/** An unknown name stays in place, and Prometheus rejects it. */
function fillIn(expr: string, variables: Variables): string {
  const all = { ...TIMES, ...variables };
  return expr.replaceAll(/\$(\w+)/g, (whole, name: string) => all[name] ?? whole);
}

/** How many series Prometheus answers with. */
export async function countSeries(
  prometheus: Prometheus,
  { expr, isInstant }: PanelQuery,
  fromSeconds: number,
): Promise<number> {
  const now = Date.now() / 1_000;
  const range = { query: expr, start: String(fromSeconds), end: String(now), step: "1" };
  const answer = isInstant
    ? await prometheus.ask("query", { query: expr })
    : await prometheus.ask("query_range", range);
  return (answer as { result: readonly unknown[] }).result.length;
}
