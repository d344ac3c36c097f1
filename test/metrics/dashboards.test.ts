/** The dashboards are what Grafana imports, by hand or from a ConfigMap, into any Grafana and on any data source. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { z } from "zod";
import { repositoryFiles, root } from "../docs/pages.ts";

const dataSource = z.strictObject({ type: z.literal("prometheus"), uid: z.literal("$datasource") });
const target = z.strictObject({
  refId: z.string().regex(/^[A-Z]$/),
  datasource: dataSource,
  expr: z.string().min(1),
  legendFormat: z.string(),
  instant: z.literal(true).optional(),
  format: z.literal("table").optional(),
});
const place = { id: z.int().min(1), gridPos: z.looseObject({}), title: z.string().min(1) };
const row = z.strictObject({
  ...place,
  type: z.literal("row"),
  collapsed: z.literal(false),
  panels: z.tuple([]),
});
const panel = z.strictObject({
  ...place,
  type: z.enum(["timeseries", "stat", "table"]),
  description: z.string().min(1),
  datasource: dataSource,
  fieldConfig: z.strictObject({
    defaults: z.looseObject({
      unit: z.enum(["short", "bytes", "Bps", "s", "percentunit", "reqps", "none", "dateTimeFromNow"]),
    }),
    overrides: z.tuple([]),
  }),
  options: z.looseObject({}),
  targets: z.array(target).min(1),
  transformations: z.array(z.strictObject({ id: z.string(), options: z.looseObject({}) })).optional(),
});
const queryVariable = z.looseObject({
  type: z.literal("query"),
  name: z.string(),
  datasource: dataSource,
  query: z.strictObject({ query: z.string(), refId: z.string() }),
  refresh: z.literal(2),
});
/** Strict, so that no fields of an author's own Grafana (id, version, __inputs) are committed. */
const dashboard = z.strictObject({
  uid: z.string().regex(/^[a-zA-Z0-9_-]{1,40}$/),
  title: z.string().min(1),
  description: z.string().min(1),
  tags: z.array(z.string()),
  schemaVersion: z.int().min(36),
  editable: z.boolean(),
  refresh: z.string(),
  time: z.strictObject({ from: z.string(), to: z.string() }),
  timezone: z.string(),
  templating: z.strictObject({
    list: z.tuple(
      [
        z.looseObject({
          type: z.literal("datasource"),
          name: z.literal("datasource"),
          query: z.literal("prometheus"),
        }),
      ],
      queryVariable,
    ),
  }),
  panels: z.array(z.discriminatedUnion("type", [row, panel])),
});

/** What `kubectl apply` can still note in an annotation. */
const MAX_BYTES = 250 * 1024;
/** Grafana fills these in. */
const OF_GRAFANA = ["__rate_interval", "__range", "__interval"];

const files = repositoryFiles("charts/metalbridge/dashboards/*.json");

function read(file: string) {
  return dashboard.parse(JSON.parse(readFileSync(path.join(root, file), "utf8")));
}

test("each has a uid and a title of its own, and all fit into one ConfigMap", () => {
  const all = files.map(read);
  expect(all.length).toBeGreaterThan(2);
  expect(new Set(all.map(({ uid }) => uid)).size).toBe(all.length);
  expect(new Set(all.map(({ title }) => title)).size).toBe(all.length);
  const bytes = files.reduce((sum, file) => sum + readFileSync(path.join(root, file)).length, 0);
  expect(bytes).toBeLessThan(MAX_BYTES);
});

test.each(files)(
  "%s: ids are unique, variables declared, values hidden where a table has labels to show",
  (file) => {
    const { panels, templating } = read(file);
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const [, ...variables] = templating.list;
    const declared = new Set([...OF_GRAFANA, ...variables.map(({ name }) => name)]);
    const texts = variables.map(({ query }) => query.query);
    for (const each of panels) {
      if (each.type === "row") continue;
      const refIds = each.targets.map(({ refId }) => refId);
      expect(new Set(refIds).size, each.title).toBe(refIds.length);
      texts.push(...each.targets.map(({ expr }) => expr));
      const isTable = each.type === "table";
      for (const { format, instant } of each.targets) {
        expect(format === "table", each.title).toBe(isTable);
        expect(instant === true, each.title).toBe(each.type !== "timeseries");
      }
      if (!isTable) continue;
      const hidden = each.transformations?.find(({ id }) => id === "organize")?.options.excludeByName;
      const values = refIds.length === 1 ? ["Value"] : refIds.map((refId) => `Value #${refId}`);
      for (const name of ["Time", ...values]) expect(hidden, each.title).toHaveProperty([name], true);
    }
    const used = texts.flatMap((text) => [...text.matchAll(/\$(\w+)/g)].map(([, name]) => name ?? ""));
    expect(used.filter((name) => !declared.has(name))).toEqual([]);
  },
);

test("what Grafana would not take, or what belongs to one Grafana only, is noticed", () => {
  const [file = ""] = files;
  const good = JSON.parse(readFileSync(path.join(root, file), "utf8"));
  const [first, second] = good.panels;
  for (const wrong of [
    { ...good, id: 3 },
    { ...good, __inputs: [] },
    { ...good, uid: "x".repeat(41) },
    { ...good, templating: { list: [] } },
    { ...good, panels: [first, { ...second, datasource: { type: "prometheus", uid: "mine" } }] },
    { ...good, panels: [first, { ...second, targets: [] }] },
  ])
    expect(dashboard.safeParse(wrong).success).toBe(false);
  expect(dashboard.safeParse(good).success).toBe(true);
});
