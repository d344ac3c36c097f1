/** Prometheus itself evaluates the rules of a service level objective on sample series of the gateway. */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { bucketOf, prometheusRule } from "../../../controller/services/objectives/rules.ts";
import { type InferenceService, inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { temporaryFolder } from "../../fixtures/temporary-folder.ts";
import { needsPrometheus, prometheusFolder, promtool } from "./promtool.ts";

const withPrometheus = test.skipIf(prometheusFolder === undefined);
const OF = 'namespace="team",service="chat"';
const requests = (code: string, values: string, pod = "a") => ({
  series: `metalbridge_gateway_requests_total{${OF},code="${code}",pod="${pod}"}`,
  values,
});
const fast = (le: string, values: string) => ({
  series: `metalbridge_gateway_time_to_first_byte_seconds_bucket{${OF},le="${le}",pod="a"}`,
  values,
});

function groupsOf(slo: object) {
  const service = inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "team", uid: "u-1" },
    spec: { modelRef: "m", slo: { objective: "99", window: "30d", ...slo } },
  }) as InferenceService;
  const { slo: found } = service.spec;
  if (found === undefined) throw new Error("the service has an objective");
  const bucket = found.indicator === "latency" ? bucketOf(found) : undefined;
  return prometheusRule({ service, slo: found, bucket, labels: {} }).spec.groups;
}

/** `firing`: the long windows of the alerts that fire after seven hours. */
async function verdictOf(slo: object, input_series: readonly object[], firing: readonly string[]) {
  await using folder = await temporaryFolder();
  const groups = groupsOf(slo);
  await writeFile(path.join(folder.path, "rules.yaml"), stringify({ groups }));
  const text = stringify({
    rule_files: ["rules.yaml"],
    evaluation_interval: "1m",
    tests: [
      {
        interval: "1m",
        input_series,
        promql_expr_test: [
          {
            expr: 'count by (long) (ALERTS{alertname="ErrorBudgetBurn",alertstate="firing",service="chat",slo="chat"})',
            eval_time: "7h",
            exp_samples: firing.map((long) => ({ labels: `{long="${long}"}`, value: 1 })),
          },
        ],
      },
    ],
  });
  const file = path.join(folder.path, "stories.yaml");
  await writeFile(file, text);
  const checked = await promtool(["check", "rules", path.join(folder.path, "rules.yaml")]);
  expect(checked.output).toContain("SUCCESS");
  return await promtool(["test", "rules", file]);
}

const LATENCY = { indicator: "latency", latencyThreshold: "900ms" };
const GOOD = requests("200", "0+600x500");
const ALL = ["1h", "6h", "1d", "3d"];

withPrometheus.each<[string, object, readonly object[], readonly string[]]>([
  ["no alert fires while all requests are answered", {}, [GOOD], []],
  ["no alert fires without requests", {}, [requests("200", "5x500"), requests("503", "2x500")], []],
  ["no alert fires without series", {}, [], []],
  ["an outage fires all", {}, [requests("200", "0x500"), requests("503", "0+60x500")], ALL],
  ["a service without replicas fires all", {}, [requests("503", "0+60x500")], ALL],
  ["a full queue is a failure", {}, [requests("429", "0+60x500")], ALL],
  [
    "a bad request and a client that left are none",
    {},
    [GOOD, requests("400", "0+60x500"), requests("0", "0+600x500")],
    [],
  ],
  [
    "a burn of 8 times the budget fires those for 6 hours and longer",
    {},
    [GOOD, requests("500", "0+52x500")],
    ["6h", "1d", "3d"],
  ],
  [
    "errors of one gateway of two count in all requests",
    {},
    [GOOD, requests("502", "0+10x500", "b")],
    ["3d"],
  ],
  [
    "an earlier outage fires the long windows only",
    {},
    [requests("200", "0+600x500"), requests("503", "0+600x340 204000x160")],
    ["1d", "3d"],
  ],
  ["fast responses fire nothing", LATENCY, [GOOD, fast("0.5", "0+500x500"), fast("1.0", "0+600x500")], []],
  ["slow responses fire all", LATENCY, [GOOD, fast("0.5", "0+1x500"), fast("1.0", "0+60x500")], ALL],
  ["refused requests are not fast", LATENCY, [requests("503", "0+60x500")], ALL],
  [
    "a longer threshold is another bucket",
    { ...LATENCY, latencyThreshold: "2s" },
    [GOOD, fast("1.0", "0+1x500"), fast("2.5", "0+600x500")],
    [],
  ],
])(`%s${needsPrometheus}`, async (_, slo, series, firing) => {
  const { code, output } = await verdictOf(slo, series, firing);
  expect(output).toContain("SUCCESS");
  expect(code, output).toBe(0);
});
