/** Dashboards and alerts ask only for what agent, controller and server have, and lead to a page that says what to do. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { agentMetrics } from "../../agent/metrics/families.ts";
import { controllerMetrics, HOST_CONDITIONS } from "../../controller/frame/metrics/families.ts";
import { serverMetrics } from "../../server/metrics.ts";
import { errorCatalog } from "../../src/api/errors.ts";
import { REPLICA_PHASES } from "../../src/api/inference-replica.ts";
import { SERVICE_PHASES } from "../../src/api/inference-service/status.ts";
import { allPages, anchorsOf, root } from "../docs/pages.ts";
import { alerts, dashboards, expressions } from "./charts.ts";
import { parseQuery, type Selector } from "./promql.ts";

/** Labels by the names that can be asked for, with the parts of histograms. */
const known = new Map<string, ReadonlySet<string>>([["up", new Set()]]);
for (const { name, type, labels = [] } of [...agentMetrics, ...controllerMetrics, ...serverMetrics()]) {
  if (type !== "histogram") known.set(name, new Set([...labels, ...(known.get(name) ?? [])]));
  else {
    known.set(`${name}_bucket`, new Set([...labels, "le"]));
    for (const part of ["_sum", "_count"]) known.set(name + part, new Set(labels));
  }
}
/** What every scrape adds. */
const OF_THE_SCRAPE = new Set(["job", "instance"]);

/** Values that a label can have, where they are few. */
const VALUES: Readonly<Record<string, ReadonlySet<string>>> = {
  "metalbridge_replica_phase phase": new Set(REPLICA_PHASES),
  "metalbridge_controller_replicas phase": new Set(REPLICA_PHASES),
  "metalbridge_service_phase phase": new Set(SERVICE_PHASES),
  "metalbridge_host_condition condition": HOST_CONDITIONS,
  "metalbridge_host_condition status": new Set(["True", "False", "Unknown"]),
  "metalbridge_host_memory_pressure level": new Set(["Normal", "Warning", "Critical", "Unknown"]),
  "metalbridge_service_rollout state": new Set(["rolling", "complete", "stopped"]),
  "metalbridge_replica_exits_total reason": new Set(Object.keys(errorCatalog)),
  "metalbridge_agent_drain_duration_seconds_count outcome": new Set(["quiet", "deadline", "ended"]),
  "metalbridge_replica_probe_duration_seconds_bucket probe": new Set(["health", "request"]),
};

function problemsOf(expr: string, legend: string): readonly string[] {
  const { selectors, grouping } = parseQuery(expr);
  const offered = new Set(OF_THE_SCRAPE);
  for (const { metric } of selectors) for (const label of known.get(metric) ?? []) offered.add(label);
  const asked = [...grouping, ...[...legend.matchAll(/\{\{(\w+)\}\}/g)].map(([, label]) => label ?? "")];
  const unknown = asked.filter((label) => !offered.has(label));
  return [
    ...selectors.flatMap(problemsOfSelector),
    ...unknown.map((label) => `nothing in it has the label ${label}`),
  ];
}

function problemsOfSelector({ metric, matchers }: Selector): readonly string[] {
  const labels = known.get(metric);
  if (labels === undefined) return [`no part exposes ${metric}`];
  return matchers.flatMap(({ label, value }) => {
    if (!labels.has(label) && !OF_THE_SCRAPE.has(label)) return [`${metric} has no label ${label}`];
    const values = VALUES[`${metric} ${label}`];
    if (values === undefined || value.startsWith("$")) return [];
    const never = value.split("|").filter((one) => !values.has(one));
    return never.map((one) => `${metric} is never ${label}=${one}`);
  });
}

test("wrong expressions are noticed", () => {
  expect(() => parseQuery("sum by (")).toThrow("no PromQL");
  expect(problemsOf("rate(metalbridge_nothing_total[5m])", "")).toEqual([
    "no part exposes metalbridge_nothing_total",
  ]);
  expect(problemsOf('metalbridge_replica_phase{phase="Reddy"}', "")).toEqual([
    "metalbridge_replica_phase is never phase=Reddy",
  ]);
  expect(problemsOf('max by (pod) (metalbridge_replica_phase{pod="x"})', "{{node}}")).toEqual([
    "metalbridge_replica_phase has no label pod",
    "nothing in it has the label pod",
    "nothing in it has the label node",
  ]);
});

test("there are alerts and dashboards to look at", () => {
  expect(alerts().length).toBeGreaterThan(20);
  expect(dashboards().map(({ uid }) => uid)).toEqual([
    "metalbridge-density",
    "metalbridge-farm",
    "metalbridge-host",
    "metalbridge-service",
  ]);
});

test.for(expressions())("$where", ({ expr, legend }) => {
  expect(problemsOf(expr, legend)).toEqual([]);
});

test("alerts have names of their own, sentences, and a runbook that exists", () => {
  const all = alerts();
  expect(new Set(all.map(({ alert }) => alert)).size).toBe(all.length);
  const pages = new Map(allPages().map((page) => [page.path, page]));
  for (const { alert, expr, annotations } of all) {
    expect(alert).toMatch(/^Metalbridge[A-Z][A-Za-z]+$/);
    for (const text of [annotations.summary, annotations.description])
      expect(text, alert).toMatch(/^.{15,}\.$/);
    const [file = "", anchor = ""] = annotations.runbook_url.split("#");
    const page = pages.get(file);
    expect(page, alert).toBeDefined();
    expect(page === undefined ? [] : [...anchorsOf(page)], alert).toContain(anchor);
    expect(anchor).toBe(alert.toLowerCase());
    const { selectors, grouping } = parseQuery(expr);
    const labels = new Set([
      ...grouping,
      ...selectors.flatMap(({ metric }) => [...(known.get(metric) ?? [])]),
    ]);
    const used = [...`${annotations.summary} ${annotations.description}`.matchAll(/\$labels\.(\w+)/g)];
    for (const [, label = ""] of used) expect([...labels, ...OF_THE_SCRAPE], alert).toContain(label);
  }
});

test("every runbook belongs to an alert", () => {
  const text = readFileSync(path.join(root, "docs/troubleshooting.md"), "utf8");
  const headings = [...text.matchAll(/^### (Metalbridge\w+)$/gm)].map(([, name]) => name);
  expect(headings.sort()).toEqual(
    alerts()
      .map(({ alert }) => alert)
      .sort(),
  );
});

test("panels say what they show, do not overlap, and stay in the grid", () => {
  for (const { title, panels } of dashboards()) {
    expect(new Set(panels.map(({ id }) => id)).size, title).toBe(panels.length);
    const taken = new Set<string>();
    for (const { type, title: panel, description = "", gridPos, targets } of panels) {
      if (type !== "row") expect([panel, description, targets?.length], title).not.toContain("");
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
          expect(x, `${title}: ${panel}`).toBeLessThan(24);
          expect(taken.has(`${x} ${y}`), `${title}: ${panel}`).toBe(false);
          taken.add(`${x} ${y}`);
        }
      }
    }
  }
});
