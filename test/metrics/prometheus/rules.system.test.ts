/** Prometheus itself loads the rules, and says of each alert when it fires and when it does not. */
import { copyFile, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { root } from "../../docs/pages.ts";
import { temporaryFolder } from "../../fixtures/temporary-folder.ts";
import { type Alert, alerts } from "../charts.ts";
import { parseQuery } from "../promql.ts";
import { needsPrometheus, prometheusFolder, promtool } from "./promtool.ts";
import { stories, storiesFile } from "./stories.ts";

const rulesFile = path.join(root, "charts/metalbridge/rules.yaml");
const names = alerts().map(({ alert }) => alert);
const GOOD_ORDER = "a farm in good order";
/** Their stories check a time at which both range semantics (left-closed until Prometheus 3) agree. */
const LENIENT = new Set(["MetalbridgeReconcileErrors", "MetalbridgeRequestsWait"]);
const withPrometheus = test.skipIf(prometheusFolder === undefined);

withPrometheus(`the rules are rules of Prometheus${needsPrometheus}`, async () => {
  const { code, output } = await promtool(["check", "rules", rulesFile]);
  expect(output).toContain(`SUCCESS: ${names.length} rules found`);
  expect(code, output).toBe(0);
});

withPrometheus(`every alert does what its stories tell${needsPrometheus}`, async () => {
  const { code, output } = await promtool(["test", "rules", storiesFile]);
  expect(output).toContain("SUCCESS");
  expect(code, output).toBe(0);
});

test("every alert has a story in which it fires, and is silent before, and is silent in a farm in good order", () => {
  const announced = (inGoodOrder: boolean, isFiring: boolean) =>
    stories()
      .filter(({ name }) => (name === GOOD_ORDER) === inGoodOrder)
      .flatMap(({ alert_rule_test }) => alert_rule_test)
      .filter(({ exp_alerts }) => exp_alerts.length > 0 === isFiring)
      .map(({ alertname }) => alertname);
  for (const found of [announced(false, true), announced(false, false), announced(true, false)])
    expect([...new Set(found)].sort()).toEqual([...names].sort());
  expect(announced(true, true)).toEqual([]);
});

test("the farm in good order has every metric that an alert asks for", () => {
  const shown = new Set(
    stories()
      .find(({ name }) => name === GOOD_ORDER)
      ?.input_series.map(({ series }) => series.split("{")[0]),
  );
  const asked = alerts().flatMap(({ expr }) => parseQuery(expr).selectors.map(({ metric }) => metric));
  expect(asked.filter((metric) => !shown.has(metric))).toEqual([]);
});

/** The names of the alerts whose stories fail once each rule is changed by `change`. */
async function alertsThatNotice(change: (rule: Alert) => object): Promise<readonly string[]> {
  await using folder = await temporaryFolder();
  const { groups } = parse(await readFile(rulesFile, "utf8"));
  for (const group of groups) group.rules = group.rules.map(change);
  await writeFile(path.join(folder.path, "rules.yaml"), stringify({ groups }));
  const copy = path.join(folder.path, "alerts.test.yaml");
  await copyFile(storiesFile, copy);
  const { code, output } = await promtool(["test", "rules", copy]);
  expect(code, output.slice(0, 1_000)).toBe(1);
  const noticed = [...output.matchAll(/^\s*alertname: ?(\w+), time:/gm)].map(([, name = ""]) => name);
  return [...new Set(noticed)].sort();
}

withPrometheus.each<[string, (rule: Alert) => object, readonly string[]]>([
  ["never fires", (rule) => ({ ...rule, expr: "vector(1) > 1" }), names],
  ["always fires", ({ for: _, ...rule }) => ({ ...rule, expr: "vector(1)" }), names],
  [
    "does not wait",
    ({ for: _, ...rule }) => rule,
    alerts().flatMap(({ alert, for: wait }) => (wait === undefined ? [] : [alert])),
  ],
  [
    "waits a minute longer",
    (rule) => ({ ...rule, for: rule.for === undefined ? "30m" : `${Number.parseInt(rule.for, 10) + 1}m` }),
    names.filter((name) => !LENIENT.has(name)),
  ],
  ["has another severity", (rule) => ({ ...rule, labels: { severity: "none" } }), names],
])(`the stories notice an alert that %s${needsPrometheus}`, async (_name, change, expected) => {
  expect(await alertsThatNotice(change)).toEqual([...expected].sort());
});
