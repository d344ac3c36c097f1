import { expect, test } from "vitest";
import type { Condition } from "../../../src/api/conditions.ts";
import { type InferenceService, inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { NO_OWNED_OBJECTS } from "../../frame/owned/observe.ts";
import { planFor, unhonoredObjective } from "./objective.ts";

const condition = (type: string, status: Condition["status"], message = ""): Condition => ({
  ...{ type, status, message, reason: "FieldsNotHonored", lastTransitionTime: "2026-01-01T00:00:00Z" },
});

function planned(
  slo: object | undefined,
  kind: Parameters<typeof planFor>[1],
  { rules = [] as string[], objectives = [] as string[], status = {} } = {},
) {
  const service = inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "team", uid: "u-1" },
    spec: { modelRef: "m", slo },
    status,
  }) as InferenceService;
  const named = (name: string) => ({ metadata: { name } }) as never;
  const own = { ...NO_OWNED_OBJECTS, objectives: objectives.map(named), prometheusRules: rules.map(named) };
  const { steps, report } = planFor({ service, own }, kind, {});
  const found = report([]);
  return {
    steps: steps.map((step) =>
      "what" in step ? `${step.do} ${step.what} ${step.object.metadata.name}` : "",
    ),
    condition: found && `${found.status} ${found.reason}`,
    message: found?.message,
  };
}

const SLO = { objective: "99.9" };
const LATENCY = { objective: "99", indicator: "latency" };

test.each<[string, ReturnType<typeof planned>, readonly string[], string | undefined]>([
  ["rules without Pyrra", planned(SLO, "prometheusRules"), ["apply prometheusRules chat"], "True SLOApplied"],
  ["Pyrra's object with it", planned(SLO, "objectives"), ["apply objectives chat"], "True SLOApplied"],
  [
    "Pyrra's object only once the rules are gone",
    planned(SLO, "objectives", { rules: ["chat"] }),
    ["remove prometheusRules chat"],
    "True SLOApplied",
  ],
  [
    "another object after another name",
    planned({ ...SLO, name: "fast" }, "prometheusRules", { rules: ["chat"] }),
    ["apply prometheusRules fast", "remove prometheusRules chat"],
    "True SLOApplied",
  ],
  ["nothing without the field", planned(undefined, "objectives"), [], undefined],
  [
    "no object after the field",
    planned(undefined, "objectives", { objectives: ["chat"] }),
    ["remove objectives chat"],
    undefined,
  ],
  ["the kinds to install", planned(SLO, "missing"), [], "False SLOKindsMissing"],
  [
    "nothing before the kinds are known",
    planned(SLO, "unknown", { rules: ["chat"] }),
    [],
    "Unknown SLONotEvaluated",
  ],
  [
    "its last report until then",
    planned(SLO, "unknown", { status: { conditions: [condition("SLOReady", "True")] } }),
    [],
    "True FieldsNotHonored",
  ],
  [
    "the buckets above the largest one",
    planned({ ...LATENCY, latencyThreshold: "10m" }, "prometheusRules", { rules: ["chat"] }),
    ["remove prometheusRules chat"],
    "False SLOThresholdTooHigh",
  ],
])("a service gets %s", (_, { steps, condition: found }, expectedSteps, expected) => {
  expect(steps).toEqual(expectedSteps);
  expect(found).toBe(expected);
});

test.each([
  [
    planned(SLO, "prometheusRules"),
    /^PrometheusRule chat counts .* gateway; those to its Service, or .* not counted$/,
  ],
  [
    planned({ ...LATENCY, latencyThreshold: "3s" }, "objectives"),
    /^ServiceLevelObjective chat .*with the bucket of 5 s for latencyThreshold 3s/,
  ],
  [planned({ ...LATENCY, latencyThreshold: "10m" }, "objectives"), /0\.05, 0\.1, .*60, 300; set spec\.slo/],
])("the condition says what is counted: %o", ({ message }, expected) => {
  expect(message).toMatch(expected);
});

test("a service that cannot have its alerts names the field in SpecHonored, beside the others", () => {
  const missing = planFor(
    {
      service: inferenceServiceSchema.parse({
        metadata: { name: "chat" },
        spec: { modelRef: "m", slo: SLO },
      }) as InferenceService,
      own: NO_OWNED_OBJECTS,
    },
    "missing",
    {},
  ).report([]);
  const honored = (status: Condition["status"], message?: string) =>
    unhonoredObjective(missing, [condition("SpecHonored", status, message)]);
  expect(honored("True")).toMatchObject({
    status: "False",
    reason: "FieldsNotHonored",
    message: expect.stringMatching(/^spec\.slo: neither .*; install/),
  });
  expect(honored("False", "ignored in pods: spec.jinja")?.message).toMatch(
    /^ignored in pods: spec\.jinja; spec\.slo: neither/,
  );
  expect(honored("Unknown")).toBeUndefined();
  expect(unhonoredObjective(missing, [])).toBeUndefined();
  const applied = { type: "SLOReady", status: "True", reason: "SLOApplied", message: "" } as const;
  expect(unhonoredObjective(applied, [condition("SpecHonored", "True")])).toBeUndefined();
});
