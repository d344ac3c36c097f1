import { describe, expect, test } from "vitest";
import { type InferenceService, inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { ruleLabelsOf } from "./config.ts";
import { bucketOf, type Objective, prometheusRule, pyrraObjective } from "./rules.ts";

function objective(slo: object = {}, labels = {}): Objective {
  const service = inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "team", uid: "u-1" },
    spec: { modelRef: "m", slo: { objective: "99.9", ...slo } },
  }) as InferenceService;
  const found = service.spec.slo;
  if (found === undefined) throw new Error("the service has an objective");
  const bucket = found.indicator === "latency" ? bucketOf(found) : undefined;
  return { service, slo: found, bucket, labels };
}

const rulesOf = (slo: object) => prometheusRule(objective(slo)).spec.groups.flatMap(({ rules }) => rules);
const LATENCY = { indicator: "latency", latencyThreshold: "500ms" };

describe("the windows of the alerts", () => {
  const alerts = (slo: object) =>
    rulesOf(slo)
      .filter(({ alert }) => alert !== undefined)
      .map(({ expr, labels: { long, short, severity } }) => [
        long,
        short,
        Number(/> (\S+)/.exec(expr)?.[1]),
        severity,
      ]);

  test.each([
    [
      "are those of the SRE workbook for 30 days",
      { window: "30d" },
      [
        ["1h", "5m", 0.0144, "critical"],
        ["6h", "30m", 0.006, "critical"],
        ["1d", "2h", 0.003, "warning"],
        ["3d", "6h", 0.001, "warning"],
      ],
    ],
    [
      "are parts of the window",
      { window: "7d" },
      [
        ["14m", "2m", 0.0144, "critical"],
        ["84m", "7m", 0.006, "critical"],
        ["336m", "28m", 0.003, "warning"],
        ["1008m", "84m", 0.001, "warning"],
      ],
    ],
    [
      "are never shorter than four scrapes",
      { window: "1h" },
      [
        ["2m", "2m", 0.0144, "critical"],
        ["2m", "2m", 0.006, "critical"],
        ["2m", "2m", 0.003, "warning"],
        ["6m", "2m", 0.001, "warning"],
      ],
    ],
    [
      "leave out an alert that could never fire",
      { window: "30d", objective: "90" },
      [
        ["6h", "30m", 0.6, "critical"],
        ["1d", "2h", 0.3, "warning"],
        ["3d", "6h", 0.1, "warning"],
      ],
    ],
    ["keep one at the lowest objective", { window: "30d", objective: "50" }, [["3d", "6h", 0.5, "warning"]]],
  ])("%s", (_, slo, expected) => {
    expect(alerts(slo)).toEqual(expected);
  });
});

test("each window is recorded once, and the budget over the whole window", () => {
  const recorded = rulesOf({}).filter(({ record }) => record !== undefined);
  expect(recorded.map(({ labels }) => labels.window)).toEqual([
    ...["280s", "56m", "28m", "336m", "112m", "1344m", "4032m"],
    undefined,
  ]);
  const total = `(sum(rate(metalbridge_gateway_requests_total{namespace="team",service="chat",code!="0"}[28d])) > 0)`;
  const errors = `(sum(rate(metalbridge_gateway_requests_total{namespace="team",service="chat",code=~"5..|429"}[28d])) or vector(0))`;
  expect(recorded.at(-1)?.expr).toBe(`1 - ${errors} / ${total} / 0.001`);
});

test.each([
  ["500ms", 0.5],
  ["0.3s", 0.5],
  ["1ms", 0.05],
  ["1s", 1],
  ["2m", 300],
  ["5m", 300],
  ["301s", undefined],
  ["1.2.3s", undefined],
])("a latency of %s is the bucket %s", (latencyThreshold, expected) => {
  expect(bucketOf({ objective: "99", window: "28d", indicator: "latency", latencyThreshold })).toBe(expected);
});

test("Pyrra counts the same requests, by selectors without functions", () => {
  const indicator = (slo: object) => pyrraObjective(objective(slo)).spec.indicator;
  const of = 'namespace="team",service="chat"';
  const total = { metric: `metalbridge_gateway_requests_total{${of},code!="0"}` };
  const errors = { metric: `metalbridge_gateway_requests_total{${of},code=~"5..|429"}` };
  expect(indicator({})).toEqual({ ratio: { errors, total } });
  const success = { metric: `metalbridge_gateway_time_to_first_byte_seconds_bucket{${of},le="1.0"}` };
  expect(indicator({ ...LATENCY, latencyThreshold: "900ms" })).toEqual({ latency: { success, total } });
});

test("the objects have the name of the objective, and the labels of the operator's selector", () => {
  const labels = ruleLabelsOf({ ruleLabels: "release=monitoring,example.com/team=a" });
  const named = objective({ name: "fast" }, { ...labels, "metalbridge.dev/service": "other" });
  const ours = { "metalbridge.dev/service": "chat", "metalbridge.dev/service-uid": "u-1" };
  for (const { metadata } of [pyrraObjective(named), prometheusRule(named)])
    expect(metadata).toMatchObject({ name: "fast", labels: { ...labels, ...ours } });
  // Pyrra copies the labels of its object to the rules that it makes.
  expect(pyrraObjective(named).metadata.labels).not.toHaveProperty(["metalbridge.dev/slo-rules"]);
  expect(prometheusRule(objective()).metadata.name).toBe("chat");
});
