import { expect, test } from "vitest";
import { type BackendRuntimeSpec, backendRuntimeSchema } from "../api/backend-runtime.ts";
import { inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
import { autoscalingWithBackend, type BackendUse, withBackend } from "./backend.ts";

const onPods: BackendUse = { on: "Pods", format: "safetensors", accelerator: "cuda" };
const onHosts: BackendUse = { on: "Hosts", format: "gguf" };

function runtime(fields: Record<string, unknown>): { name: string; spec: BackendRuntimeSpec } {
  const { spec } = backendRuntimeSchema.parse({ metadata: { name: "mine" }, spec: fields });
  return { name: "mine", spec };
}

function service(fields: Record<string, unknown> = {}) {
  return inferenceServiceSpecSchema.parse({ modelRef: "tiny", backendRuntime: { name: "mine" }, ...fields });
}

const withDraft = { speculativeDecoding: { type: "draft", draftModelRef: "small" } };

const full = runtime({
  image: "registry.example/engine",
  version: "1.2",
  args: ["--model", "{{ .ModelPath }}"],
  env: [{ name: "B", value: "runtime" }, { name: "A", value: "runtime" }, { name: "EMPTY" }],
  resources: { cpu: "4", memory: "8Gi" },
  sharedMemory: "2Gi",
  probes: { liveness: { httpGet: { path: "/health" }, periodSeconds: 10 } },
  gauges: { running: ["running"], queued: ["queued"] },
  recommendedConfigs: [
    { name: "default", args: ["--default"], env: [{ name: "A", value: "config" }], resources: { cpu: "6" } },
    { name: "speculative-decoding", args: ["--draft", "{{ .DraftModelPath }}"] },
  ],
  host: { command: ["engine"], args: ["--port", "{{ .Port }}"], memory: { weightsPercent: 110 } },
});

test("the service overrides the recommended configuration, which overrides the runtime", () => {
  const own = service({
    args: ["--own"],
    env: [
      { name: "C", value: "service" },
      { name: "B", value: "service" },
    ],
    resources: { memory: "16Gi" },
  });
  expect(withBackend(own, full, onPods)).toMatchObject({
    runtime: "generic",
    image: "registry.example/engine:1.2",
    args: ["--model", "{{ .ModelPath }}", "--default", "--own"],
    env: [
      { name: "B", value: "service" },
      { name: "A", value: "config" },
      { name: "EMPTY", value: "" },
      { name: "C", value: "service" },
    ],
    resources: { cpu: "6", memory: "16Gi" },
    sharedMemory: "2Gi",
    inFlightProbe: { path: "/metrics", gauges: ["running", "queued"] },
  });
});

test.each<[string, object, object, object, object]>([
  [
    "limits are merged by resource",
    { limits: { cpu: 4, memory: "8Gi" } },
    {},
    { limits: { memory: "16Gi" } },
    { limits: { cpu: 4, memory: "16Gi" } },
  ],
  [
    "a request raises the limit of the runtime",
    { memory: "4Gi", limits: { memory: "8Gi" } },
    {},
    { memory: "12Gi" },
    { memory: "12Gi", limits: { memory: "12Gi" } },
  ],
  [
    "a limit lowers the request of the runtime",
    { memory: "8Gi" },
    {},
    { limits: { memory: "4Gi" } },
    { memory: "4Gi", limits: { memory: "4Gi" } },
  ],
  [
    "a configuration overrides the runtime in the same way",
    { cpu: "6" },
    { limits: { cpu: "1500m" } },
    {},
    { cpu: "1500m", limits: { cpu: "1500m" } },
  ],
  [
    "hostMemory is the request of memory",
    { hostMemory: "64Gi", memory: "1Gi" },
    {},
    { limits: { memory: "32Gi" } },
    { hostMemory: "32Gi", memory: "1Gi", limits: { memory: "32Gi" } },
  ],
  [
    "equal values are no conflict",
    { cpu: "1" },
    { limits: { cpu: "1000m" } },
    {},
    { cpu: "1", limits: { cpu: "1000m" } },
  ],
])("in resources, %s", (_, ofRuntime, ofConfig, own, merged) => {
  const configs = [{ name: "default", resources: ofConfig }];
  const backend = runtime({ image: "engine:1", resources: ofRuntime, recommendedConfigs: configs });
  expect(withBackend(service({ resources: own }), backend, onPods).resources).toEqual(merged);
});

test("a draft model selects speculative-decoding, and a named configuration overrides both", () => {
  const args = (fields: Record<string, unknown>) =>
    withBackend(service({ ...fields, ...withDraft }), full, onPods).args?.slice(2);
  expect(args({})).toEqual(["--draft", "{{ .DraftModelPath }}"]);
  expect(args({ backendRuntime: { name: "mine", config: "default" } })).toEqual(["--default"]);
});

test("on hosts, the command of the host section is used, and settings of pods are not", () => {
  const merged = withBackend(service(), full, onHosts);
  expect(merged).toMatchObject({ command: ["engine"], args: ["--port", "{{ .Port }}", "--default"] });
  expect(merged.image).toBeUndefined();
  expect(merged.resources).toBeUndefined();
});

test("a version of the service replaces the tag, but not a digest", () => {
  const version = service({ backendRuntime: { name: "mine", version: "2" } });
  const image = (name: string) => withBackend(version, runtime({ image: name }), onPods).image;
  expect(image("localhost:5000/engine:1")).toBe("localhost:5000/engine:2");
  expect(image("localhost:5000/engine")).toBe("localhost:5000/engine:2");
  const digest = `engine@sha256:${"0".repeat(64)}`;
  expect(image(digest)).toBe(digest);
});

test("a handler of the service replaces that of the runtime, and keeps its times", () => {
  const own = service({ probeOverrides: { liveness: { tcpSocket: {} } } });
  expect(withBackend(own, full, onPods).probeOverrides?.liveness).toEqual({
    tcpSocket: {},
    periodSeconds: 10,
  });
});

test("arguments for another runtime are added to its own", () => {
  const vllm = runtime({ engine: "vllm", args: ["--max-num-seqs=8"] });
  const merged = withBackend(service({ extraArgs: ["--seed=1"] }), vllm, onPods);
  expect(merged).toMatchObject({ runtime: "vllm", extraArgs: ["--max-num-seqs=8", "--seed=1"] });
  expect(merged.args).toBeUndefined();
});

test.each([
  ["no host section", runtime({ image: "a:1" }), onHosts, "does not run on hosts"],
  ["no image", runtime({ host: { command: ["x", "{{port}}"] } }), onPods, "does not run in pods"],
  ["another format", runtime({ image: "a:1", formats: ["mlx"] }), onPods, "does not load format safetensors"],
  ["another mode", runtime({ image: "a:1", modes: ["rerank"] }), onPods, "does not serve mode chat"],
  ["another accelerator", runtime({ image: "a:1", accelerators: ["rocm"] }), onPods, "accelerator cuda"],
])("is refused: %s", (_, backend, use, says) => {
  expect(() => withBackend(service(), backend, use)).toThrow(says);
});

test("an unknown configuration is refused with those that exist", () => {
  const own = service({ backendRuntime: { name: "mine", config: "fast" } });
  expect(() => withBackend(own, full, onPods)).toThrow("it has default, speculative-decoding");
});

test.each([
  ...["GGML_BACKEND_PATH", "OPENSSL_CONF", "PYTHONUSERBASE", "HOME", "PATH", "LD_PRELOAD", "level", "LEVEL "],
  ...["constructor", "MINE"],
])("on hosts a service may not set %s, which the BackendRuntime does not name", (name) => {
  const own = service({ env: [{ name, value: "{{model}}" }] });
  expect(() => withBackend(own, withVariables, onHosts)).toThrow(
    expect.objectContaining({ code: "CommandInvalid", message: expect.stringContaining(name) }),
  );
});

test("on hosts a service replaces values of variables that the BackendRuntime names", () => {
  const env = [
    { name: "LEVEL", value: "own" },
    { name: "CACHE", value: "own" },
  ];
  const merged = withBackend(service({ env }), withVariables, onHosts);
  expect(merged.env).toEqual([{ name: "PYTHONPATH", value: "/opt/mine" }, ...env]);
});

const withVariables = runtime({
  env: [{ name: "MINE", value: "of the container" }],
  image: "registry.example/engine:1",
  recommendedConfigs: [{ name: "default", env: [{ name: "CACHE", value: "1" }] }],
  host: {
    command: ["engine", "{{port}}"],
    env: [
      { name: "PYTHONPATH", value: "/opt/mine" },
      { name: "LEVEL", value: "1" },
    ],
  },
});

test("a configuration for drafts that adds nothing needs a draft model, or a type that needs none", () => {
  const backend = runtime({ engine: "llamacpp", recommendedConfigs: [{ name: "speculative-decoding" }] });
  const named = { backendRuntime: { name: "mine", config: "speculative-decoding" } };
  expect(() => withBackend(service(named), backend, onHosts)).toThrow(
    "configuration speculative-decoding of BackendRuntime mine needs a draft model",
  );
  expect(withBackend(service({ ...named, ...withDraft }), backend, onHosts).runtime).toBe("llamacpp");
  const ngram = service({ ...named, speculativeDecoding: { type: "ngram-simple" } });
  expect(withBackend(ngram, backend, onHosts).runtime).toBe("llamacpp");
  // A configuration with arguments of its own has an effect without a draft model.
  const own = runtime({
    engine: "vllm",
    recommendedConfigs: [{ name: "speculative-decoding", args: ["--speculative-config", "{}"] }],
  });
  expect(withBackend(service(named), own, onHosts).extraArgs).toEqual(["--speculative-config", "{}"]);
});

test("arguments of a BackendRuntime come first, as they are written", () => {
  const backend = runtime({
    engine: "llamacpp",
    args: ["-c", "4096", "-fa"],
    recommendedConfigs: [{ name: "default", args: ["--ctx-size", "8192"] }],
  });
  const extraArgs = (fields: Record<string, unknown>) =>
    withBackend(service(fields), backend, onHosts).extraArgs;
  expect(extraArgs({})).toEqual(["-c", "4096", "-fa", "--ctx-size", "8192"]);
  expect(extraArgs({ contextSize: 2048, extraArgs: ["-fa"] })?.slice(-3)).toEqual([
    "--ctx-size",
    "8192",
    "-fa",
  ]);
});

/** The sample of llmaz's tests, with the field names of autoscaling/v2. */
const CPU = {
  type: "Resource",
  resource: { name: "cpu", target: { type: "Utilization", averageUtilization: 50 } },
};
const QUEUE = { type: "External", name: "queue", targetAverageValue: "5" };
const behavior = { scaleDown: { stabilizationWindowSeconds: 60 } };
const scaling = (fields: object) => ({ maxReplicas: 3, engine: "HPA", minReplicas: 1, ...fields });

test.each<[string, object, object, object, ("Pods" | "Hosts" | "Auto")?]>([
  ["its metrics and behavior", { metrics: [CPU], behavior }, {}, { metrics: [CPU], behavior }],
  [
    "no metrics beside those of the service",
    { metrics: [CPU], behavior },
    { metrics: [QUEUE] },
    { metrics: [QUEUE] },
  ],
  [
    "nothing beside targetRequests of the service",
    { metrics: [CPU] },
    { targetRequests: 4 },
    { targetRequests: 4 },
  ],
  [
    "metrics beside a behavior of the service",
    { metrics: [CPU], behavior: { scaleUp: {} } },
    { behavior },
    { metrics: [CPU], behavior },
  ],
  [
    "only the behavior to KEDA",
    { metrics: [CPU], behavior },
    { engine: "KEDA" },
    { engine: "KEDA", behavior },
  ],
  ["no metrics of pods to hosts", { metrics: [CPU], behavior }, {}, { behavior }, "Hosts"],
  ["no metrics of pods to hosts and pods", { metrics: [CPU] }, {}, {}, "Auto"],
  ["other metrics to hosts", { metrics: [QUEUE] }, {}, { metrics: [QUEUE] }, "Hosts"],
])("a scale trigger gives %s", (_, hpa, own, expected, on = "Pods") => {
  const configs = [{ name: "default" }, { name: "busy", scaleTrigger: { hpa } }];
  const backend = runtime({ image: "engine:1", recommendedConfigs: configs });
  const given = (config?: string) =>
    service({ backendRuntime: { name: "mine", config }, autoscaling: scaling(own) });
  expect(autoscalingWithBackend(given("busy"), backend, on)).toEqual(scaling(expected));
  expect(autoscalingWithBackend(given(), backend, on)).toEqual(scaling(own));
  expect(autoscalingWithBackend(given("none"), backend, on)).toEqual(scaling(own));
});

test("the trigger is that of the configuration of the roles, and scales only services with limits", () => {
  const configs = [
    { name: "default" },
    { name: "speculative-decoding", scaleTrigger: { hpa: { metrics: [CPU] } } },
  ];
  const backend = runtime({ image: "engine:1", recommendedConfigs: configs });
  const modelRefs = [{ name: "a" }, { name: "b", role: "draft" }];
  const spec = (fields: Record<string, unknown>) => service({ modelRef: undefined, modelRefs, ...fields });
  expect(autoscalingWithBackend(spec({ autoscaling: { maxReplicas: 2 } }), backend, "Pods")?.metrics).toEqual(
    [CPU],
  );
  expect(autoscalingWithBackend(spec({}), backend, "Pods")).toBeUndefined();
});
