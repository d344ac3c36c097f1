import { expect, test } from "vitest";
import { inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import type { HorizontalPodAutoscaler, ScaledObject } from "../../../src/kube/workload-objects.ts";
import { loadGaugesOf, planScaling, scalingConditions, stepsOfScaler } from "./scale.ts";
import { planScaler, type ScalerInput } from "./scaler.ts";

const vllm = engineDescription("vllm")?.pod?.metrics;
const llamacpp = engineDescription("llamacpp")?.pod?.metrics;
const loadEndpoint = "http://metalbridge-autoscaling.metalbridge-system.svc:9464";

function input(spec: object, rest: Partial<ScalerInput> = {}): ScalerInput {
  const service = inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "team", uid: "u" },
    spec: { modelRef: "m", ...spec },
  });
  const settings = { externalMetrics: "ours", loadEndpoint } as const;
  return {
    service,
    settings,
    on: "Hosts",
    runtime: "llamacpp",
    gauges: undefined,
    hasKEDA: true,
    defaultTransport: "Direct",
    ...rest,
  };
}

const scaled = (autoscaling: object, rest?: Partial<ScalerInput>) =>
  planScaler(input({ autoscaling: { maxReplicas: 3, ...autoscaling } }, rest));

function metricsOf(plan: ReturnType<typeof planScaler>): unknown {
  return plan.at === "HPA" ? plan.object.spec.metrics : plan;
}

const external = (value: string) => [
  {
    type: "External",
    external: {
      metric: {
        name: "metalbridge_requests_in_flight",
        selector: { matchLabels: { "metalbridge.dev/service": "chat" } },
      },
      target: { type: "AverageValue", averageValue: value },
    },
  },
];

test("there is no autoscaler without autoscaling, and none while the service is suspended", () => {
  expect(planScaler(input({}))).toEqual({ at: "none" });
  expect(planScaler(input({ suspend: true, autoscaling: { maxReplicas: 2 } }))).toEqual({ at: "none" });
});

test("the target is the number of slots, also if an argument sets it", () => {
  const autoscaling = { maxReplicas: 3 };
  const extraArgs = ["-np", "8", "-c", "32768"];
  expect(metricsOf(planScaler(input({ autoscaling, extraArgs })))).toEqual(external("8"));
});

test("an HPA scales the service itself by its requests, on hosts and in pods", () => {
  const plan = scaled({ minReplicas: 2 });
  expect(plan).toMatchObject({
    at: "HPA",
    object: {
      metadata: { name: "chat", namespace: "team" },
      spec: {
        scaleTargetRef: { apiVersion: "metalbridge.dev/v1alpha1", kind: "InferenceService", name: "chat" },
        minReplicas: 2,
        maxReplicas: 3,
      },
    },
  });
  expect(metricsOf(plan)).toEqual(external("2"));
  expect(metricsOf(scaled({}, { on: "Pods", gauges: vllm }))).toEqual(external("2"));
  expect(metricsOf(scaled({}, { on: "Auto", gauges: vllm }))).toEqual(external("2"));
});

test("the target is the number of slots, unless the service sets it", () => {
  const target = (spec: object) => metricsOf(planScaler(input(spec)));
  expect(target({ parallelSlots: 4, autoscaling: { maxReplicas: 3 } })).toEqual(external("4"));
  expect(target({ parallelSlots: 4, autoscaling: { maxReplicas: 3, targetRequests: 9 } })).toEqual(
    external("9"),
  );
});

test("an HPA of pods uses the gauge of the service, else of its BackendRuntime, else of the engine", () => {
  const backend = { spec: { gauges: { running: ["busy_slots"], queued: ["waiting"] } } } as never;
  const settings = { externalMetrics: "off" } as const;
  const metricOf = (spec: object, from: object, runtime: "vllm" | "generic") => {
    const { service } = input({ runtime, ...spec });
    const gauges = loadGaugesOf(runtime, { service, backend: undefined, ...from });
    const plan = planScaler(
      input({ ...spec, autoscaling: { maxReplicas: 3 } }, { settings, on: "Pods", gauges }),
    );
    return plan.at === "HPA" ? plan.object.spec.metrics : plan;
  };
  const named = (name: string) => [{ type: "Pods", pods: { metric: { name } } }];
  const own = { inFlightProbe: { gauges: ["own_gauge"] } };
  expect(metricOf(own, { backend }, "generic")).toMatchObject(named("own_gauge"));
  expect(metricOf({}, { backend }, "generic")).toMatchObject(named("busy_slots"));
  expect(metricOf({}, {}, "vllm")).toMatchObject(named("vllm:num_requests_running"));
  expect(metricOf({}, {}, "generic")).toMatchObject({ code: "AutoscalingWithoutMetric" });
});

test("without external metrics, pods are scaled by an adapter's metric of pods, and hosts not at all", () => {
  const settings = { externalMetrics: "off" } as const;
  expect(metricsOf(scaled({}, { settings, on: "Pods", gauges: llamacpp }))).toMatchObject([
    { type: "Pods", pods: { metric: { name: "llamacpp:requests_processing" } } },
  ]);
  expect(scaled({}, { settings })).toMatchObject({ at: "blocked", code: "ExternalMetricsOff" });
  const taken = { externalMetrics: { other: "keda/keda-operator-metrics-apiserver" } };
  expect(scaled({}, { settings: taken })).toMatchObject({
    code: "ExternalMetricsTaken",
    message: "external.metrics.k8s.io is served by keda/keda-operator-metrics-apiserver",
  });
});

test.each([
  ["a runtime without gauges", {}, undefined],
  ["gauges behind the API key", { auth: { secretRef: { name: "key" } } }, llamacpp],
])("in pods, %s needs metrics of the user with either engine", (_, spec, gauges) => {
  const settings = { externalMetrics: "ours", loadEndpoint } as const;
  const rest = { on: "Auto", gauges, settings } as const;
  for (const engine of ["HPA", "KEDA"]) {
    const plan = planScaler(input({ ...spec, autoscaling: { engine, maxReplicas: 3 } }, rest));
    expect(plan).toMatchObject({ at: "blocked", code: "AutoscalingWithoutMetric" });
  }
});

test("on hosts, a program needs the gate, or metrics of the user", () => {
  const plan = (spec: object, rest: Partial<ScalerInput> = {}) =>
    planScaler(input({ ...spec, autoscaling: { maxReplicas: 3 } }, { runtime: "generic", ...rest }));
  const needsGate = { code: "AutoscalingWithoutMetric", message: expect.stringContaining("gate") };
  expect(plan({})).toMatchObject(needsGate);
  const defaultTransport = "Sealed";
  expect(metricsOf(plan({}, { defaultTransport }))).toEqual(external("2"));
  expect(plan({ endpoint: { transport: "Direct" } }, { defaultTransport })).toMatchObject(needsGate);
  expect(metricsOf(plan({ endpoint: { gate: "Always" } }))).toEqual(external("2"));
  expect(metricsOf(planScaler(input({ autoscaling: { maxReplicas: 3 } }, { runtime: undefined })))).toEqual(
    external("2"),
  );
});

test("metrics of the user pass through, in the short form and in that of autoscaling/v2", () => {
  const given = { type: "External", external: { metric: { name: "queue" }, target: { type: "Value" } } };
  const metrics = [
    given,
    { type: "Resource", name: "cpu", targetAverageUtilization: 60 },
    { type: "External", name: "depth", targetAverageValue: "5" },
  ];
  expect(metricsOf(scaled({ metrics }))).toEqual([
    given,
    { type: "Resource", resource: { name: "cpu", target: { type: "Utilization", averageUtilization: 60 } } },
    {
      type: "External",
      external: { metric: { name: "depth" }, target: { type: "AverageValue", averageValue: "5" } },
    },
  ]);
  expect(scaled({ metrics: [{ type: "Pods" }] })).toMatchObject({ code: "AutoscalingWithoutMetric" });
});

test("a service without metrics is scaled by the trigger of its configuration", () => {
  const metrics = [{ type: "Resource", name: "cpu", targetAverageUtilization: 50 }];
  const configs = [{ name: "busy", scaleTrigger: { hpa: { metrics } } }];
  const backend = { name: "mine", spec: { engine: "vllm", recommendedConfigs: configs } };
  const backendRuntime = { name: "mine", config: "busy" };
  const { service } = input({ backendRuntime, autoscaling: { maxReplicas: 3 } });
  const own = { autoscalers: [], scaledObjects: [] };
  const ports = {
    autoscaling: () => ({ externalMetrics: "ours" }),
    transport: { byDefault: "Direct" },
    watches: { scaledObjects: { isSynced: () => false } },
  };
  const { steps } = planScaling(ports as never, { service, backend, own } as never, {
    on: "Pods",
    status: { runtime: "vllm" },
  });
  const target = { type: "Utilization", averageUtilization: 50 };
  expect(steps).toMatchObject([
    { do: "apply", object: { spec: { metrics: [{ type: "Resource", resource: { name: "cpu", target } }] } } },
  ]);
});

test("KEDA reads the requests from the controller, down to zero if asked", () => {
  const plan = scaled({ engine: "KEDA", minReplicas: 0, targetRequests: 4 });
  expect(plan).toMatchObject({
    at: "KEDA",
    object: {
      spec: {
        scaleTargetRef: { kind: "InferenceService", name: "chat" },
        minReplicaCount: 0,
        maxReplicaCount: 3,
        triggers: [
          {
            type: "metrics-api",
            metadata: {
              url: `${loadEndpoint}/load/team/chat`,
              valueLocation: "requestsInFlight",
              targetValue: "4",
            },
          },
        ],
      },
    },
  });
  const triggers = [{ type: "cron", metadata: { timezone: "UTC" } }];
  const own = scaled({ engine: "KEDA", triggers }, { settings: { externalMetrics: "off" } });
  expect(own.at === "KEDA" && own.object.spec.triggers).toEqual(triggers);
});

test("KEDA that is missing, or cannot reach the controller, blocks", () => {
  expect(scaled({ engine: "KEDA" }, { hasKEDA: false })).toMatchObject({ code: "KEDANotInstalled" });
  expect(scaled({ engine: "KEDA" }, { settings: { externalMetrics: "ours" } })).toMatchObject({
    code: "KEDAWithoutLoad",
  });
});

test("the other autoscaler is gone before one is created, and both go with autoscaling", () => {
  const steps = (plan: ReturnType<typeof planScaler>, own: { hpa?: boolean; keda?: boolean }) =>
    stepsOfScaler(plan, {
      autoscalers: own.hpa === true ? [{ metadata: { name: "chat" } } as HorizontalPodAutoscaler] : [],
      scaledObjects: own.keda === true ? [{ metadata: { name: "chat" } } as ScaledObject] : [],
    }).map((step) => ("what" in step ? `${step.do} ${step.what}` : step.do));
  expect(steps(scaled({}), {})).toEqual(["apply autoscalers"]);
  expect(steps(scaled({}), { keda: true })).toEqual(["remove scaledObjects"]);
  expect(steps(scaled({ engine: "KEDA" }), { hpa: true })).toEqual(["remove autoscalers"]);
  expect(steps(scaled({ engine: "KEDA" }), {})).toEqual(["apply scaledObjects"]);
  expect(steps({ at: "none" }, { hpa: true, keda: true })).toEqual([
    "remove autoscalers",
    "remove scaledObjects",
  ]);
});

type Given = readonly { readonly type: string; readonly status: string; readonly message?: string }[];

function conditions(
  autoscaling: object | undefined,
  given: Given = [],
  rest: Partial<ScalerInput> = {},
  reason?: string,
) {
  const made = input({ autoscaling, ...("suspend" in rest ? { suspend: true } : {}) }, rest);
  const status = { conditions: given.map((one) => ({ reason: reason ?? `${one.type}Reason`, ...one })) };
  const object = { metadata: { name: "chat" }, spec: {}, status };
  return scalingConditions({
    service: made.service,
    plan: planScaler(made),
    autoscaler: object as unknown as HorizontalPodAutoscaler,
    scaledObject: object as unknown as ScaledObject,
    rejections: [],
  }).map(({ type, status, reason, message }) => `${type} ${status} ${reason}: ${message}`);
}

const KEDA = { engine: "KEDA", maxReplicas: 2 };

test("the conditions of the HPA are those of the service", () => {
  expect(conditions(undefined)).toEqual([]);
  expect(conditions({ maxReplicas: 2 })).toEqual([
    "ScalingActive Unknown AutoscalerNotEvaluated: the HorizontalPodAutoscaler has not been evaluated yet",
  ]);
  const given = [
    { type: "ScalingActive", status: "True", message: "found" },
    { type: "AbleToScale", status: "True", message: "ready" },
    { type: "ScalingLimited", status: "False", message: "within" },
  ];
  expect(conditions({ maxReplicas: 2 }, given)).toEqual([
    "ScalingActive True ScalingActiveReason: found",
    "AbleToScale True AbleToScaleReason: ready",
    "ScalingLimited False ScalingLimitedReason: within",
  ]);
});

test("a metric that Kubernetes cannot read is explained", () => {
  const service = input({ autoscaling: { maxReplicas: 2 } });
  const status = {
    conditions: [
      { type: "ScalingActive", status: "False", reason: "FailedGetPodsMetric", message: "no API" } as const,
    ],
  };
  const [active] = scalingConditions({
    service: service.service,
    plan: planScaler(service),
    autoscaler: { metadata: { name: "chat" }, spec: {}, status } as unknown as HorizontalPodAutoscaler,
    scaledObject: undefined,
    rejections: [],
  });
  expect(active?.message).toMatch(/^no API\. To do: install an adapter/);
});

test("a number of requests that is not known is explained", () => {
  const message =
    "the HPA was unable to compute the replica count: unable to get external metric team/metalbridge_requests_in_flight/&LabelSelector{MatchLabels:map[string]string{metalbridge.dev/service: chat,},MatchExpressions:[]LabelSelectorRequirement{},}: no metrics returned from external metrics API";
  const given = [{ type: "ScalingActive", status: "False", message }];
  const [active] = conditions({ maxReplicas: 2 }, given, {}, "FailedGetExternalMetric");
  expect(active).toContain("To do: check that a replica is ready");
});

test("the conditions of the ScaledObject become one", () => {
  expect(conditions(KEDA)[0]).toMatch(/^ScalingActive Unknown AutoscalerNotEvaluated: KEDA has not/);
  const ready = { type: "Ready", status: "True", message: "is ready" };
  const idle = { type: "Active", status: "False", message: "no trigger is active" };
  expect(conditions(KEDA, [ready, idle])).toEqual([
    "ScalingActive True ReadyReason: is ready; no trigger is active",
  ]);
  expect(conditions(KEDA, [{ ...ready, status: "False", message: "bad trigger" }, idle])).toEqual([
    "ScalingActive False ReadyReason: bad trigger",
  ]);
  expect(conditions(KEDA, [ready, { type: "Paused", status: "True", message: "by hand" }])).toEqual([
    "ScalingActive False PausedReason: by hand",
  ]);
  expect(conditions(KEDA, [], { hasKEDA: false })[0]).toMatch(
    /^ScalingActive False KEDANotInstalled: .*ScaledObject.*: helm install keda/,
  );
});
