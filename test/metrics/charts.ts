/** The alert rules and dashboards that are shipped, and every expression in them. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { parse } from "yaml";
import { z } from "zod";
import { repositoryFiles, root } from "../docs/pages.ts";

const alertSchema = z.strictObject({
  alert: z.string(),
  expr: z.string(),
  for: z
    .string()
    .regex(/^\d+[smh]$/)
    .optional(),
  labels: z.strictObject({ severity: z.enum(["info", "warning", "critical"]) }),
  annotations: z.strictObject({ summary: z.string(), description: z.string(), runbook_url: z.string() }),
});
const rulesSchema = z.strictObject({
  apiVersion: z.literal("monitoring.coreos.com/v1"),
  kind: z.literal("PrometheusRule"),
  metadata: z.looseObject({ name: z.string() }),
  spec: z.strictObject({
    groups: z.array(z.strictObject({ name: z.string(), rules: z.array(alertSchema) })),
  }),
});
const panelSchema = z.looseObject({
  id: z.int(),
  type: z.string(),
  title: z.string(),
  description: z.string().optional(),
  gridPos: z.strictObject({ h: z.int(), w: z.int(), x: z.int(), y: z.int() }),
  targets: z
    .array(z.looseObject({ expr: z.string(), legendFormat: z.string(), instant: z.boolean().optional() }))
    .optional(),
});
const dashboardSchema = z.looseObject({
  uid: z.string(),
  title: z.string(),
  templating: z.object({
    list: z.array(
      z.looseObject({
        name: z.string(),
        query: z.union([z.string(), z.object({ query: z.string(), refId: z.string() })]),
      }),
    ),
  }),
  panels: z.array(panelSchema),
});

export type Alert = z.output<typeof alertSchema>;
export type Dashboard = z.output<typeof dashboardSchema>;

export interface Expression {
  readonly where: string;
  readonly expr: string;
  readonly legend: string;
}

export function alerts(): readonly Alert[] {
  const text = readFileSync(path.join(root, "charts/metalbridge/alerts.yaml"), "utf8");
  return rulesSchema.parse(parse(text)).spec.groups.flatMap(({ rules }) => rules);
}

export function dashboards(): readonly Dashboard[] {
  return repositoryFiles("charts/metalbridge/dashboards/*.json").map((file) =>
    dashboardSchema.parse(JSON.parse(readFileSync(path.join(root, file), "utf8"))),
  );
}

/** Of alerts, panels and variables. */
export function expressions(): readonly Expression[] {
  const ofAlerts = alerts().map(({ alert, expr }) => ({ where: alert, expr, legend: "" }));
  const ofDashboards = dashboards().flatMap(({ title, panels, templating }) => [
    ...panels.flatMap(({ title: panel, targets = [] }) =>
      targets.map(({ expr, legendFormat }) => ({ where: `${title}: ${panel}`, expr, legend: legendFormat })),
    ),
    ...templating.list.flatMap(({ name, query }) => {
      const text = typeof query === "string" ? query : query.query;
      const [, selector, label] = /^label_values\((.+), (\w+)\)$/.exec(text) ?? [];
      return selector === undefined
        ? []
        : [{ where: `${title}: variable ${name}`, expr: `max by (${label}) (${selector})`, legend: "" }];
    }),
  ]);
  return [...ofAlerts, ...ofDashboards];
}
