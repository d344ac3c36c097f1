/** Conditions of services in pods: who checks keys, what falls back to the CPU, why weights are not fetched. */
import { expect, test } from "vitest";
import { getCondition } from "../../src/api/conditions.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { modelSchema } from "../../src/api/model.ts";
import type { Offloaded } from "../../src/engines/contract/pod.ts";
import type { ContainerStatus, Deployment, Pod } from "../../src/kube/workload-objects.ts";
import type { Offload } from "./offload.ts";
import { readPods } from "./pods.ts";
import { planPodsStatus } from "./status.ts";
import { resolvePods } from "./workload/resolve.ts";

const NOW = "2026-01-01T00:00:00Z";
const AUTH = { secretRef: { name: "keys" } };
const CACHED = {
  phase: "Ready",
  reason: "Downloaded",
  message: "",
  claimName: "c",
  folder: "f",
  file: "m.gguf",
};

interface Case {
  readonly spec?: object;
  readonly format?: string;
  readonly hardware?: object;
  readonly offload?: Offload;
  /** `status` of the service before. */
  readonly before?: object;
  readonly init?: ContainerStatus;
  /** The pod that exists has been made from this spec; absent: from the present one. */
  readonly made?: object;
  /** Absent: one. */
  readonly count?: number;
  readonly deployment?: Deployment;
}

function statusOf({
  spec,
  format = "gguf",
  hardware = { accelerator: "cpu" },
  offload,
  before,
  init,
  made,
  count = 1,
  deployment,
}: Case) {
  const serviceWith = (given: object | undefined) =>
    inferenceServiceSchema.parse({
      metadata: { name: "chat", namespace: "a", uid: "u" },
      spec: { modelRef: "m", ...given },
      status: before,
    });
  const model = modelSchema.parse({
    metadata: { name: "m", namespace: "a" },
    spec: { source: "hf://org/m", format, hardware },
    status: { phase: "Ready", format, files: ["m.gguf"], sizeBytes: 1e9, cache: CACHED },
  });
  const resolve = (given: object | undefined) =>
    resolvePods({ service: serviceWith(given), model, loraModels: [], settings: { images: {} } });
  const resolution = resolve(spec);
  const old = resolve(made ?? spec);
  const template = old.at === "resolved" ? old.workload.deployment.spec.template : undefined;
  const podOf = (number: number): Pod => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: `chat-${number}`, namespace: "a", uid: `p${number}` },
    spec: template?.spec ?? { containers: [] },
    status: {
      phase: init === undefined ? "Running" : "Pending",
      conditions: [{ type: "Ready", status: init === undefined ? "True" : "False" }],
      initContainerStatuses: init === undefined ? undefined : [init],
    },
  });
  return planPodsStatus(
    {
      service: serviceWith(spec),
      model,
      resolution,
      offload,
      pods: readPods(
        Array.from({ length: template === undefined ? 0 : count }, (_, index) => podOf(index + 1)),
      ),
      deployment,
      deferral: undefined,
      queuePosition: undefined,
      obstacle: { at: "none" },
      rejections: [],
    },
    NOW,
  );
}

const cuda = { accelerator: "cuda", gpu: { count: 1 } };
const safetensors = { format: "safetensors", hardware: cuda };

test.each<[string, Case, string, RegExp]>([
  ["no key is asked for", {}, "False NoAuth", /set spec\.auth/],
  ["llama-server", { spec: { auth: AUTH } }, "True EngineChecksKeys", /without one: \/health and OPTIONS/],
  [
    "sglang",
    { ...safetensors, spec: { auth: AUTH, runtime: "sglang" } },
    "True EngineChecksKeys",
    /\/health, \/metrics/,
  ],
  [
    "tgi, which shows the key in its arguments",
    { ...safetensors, spec: { auth: AUTH, runtime: "tgi" } },
    "True EngineChecksKeys",
    /as an argument to a child process/,
  ],
  [
    "vLLM, which answers outside of /v1",
    { ...safetensors, spec: { auth: AUTH, runtime: "vllm" } },
    "False PathsWithoutKey",
    /not on every path outside of \/v1.*\/invocations.*allowFrom/,
  ],
  [
    "a runtime that checks none",
    { ...safetensors, spec: { auth: AUTH, runtime: "tensorrt-llm" } },
    "Unknown GateNotInPods",
    /unknown until/,
  ],
  ["a pod from before", { spec: { auth: AUTH }, made: {} }, "False NoAuth", /older revision.*chat-1/],
  [
    "many pods from before",
    { spec: { auth: AUTH }, made: {}, count: 1_000 },
    "False NoAuth",
    /chat-1, chat-2, chat-3, chat-4, chat-5 and 995 more$/,
  ],
])("KeyRequired: %s", (_, given, expected, message) => {
  const found = getCondition(statusOf(given).conditions, "KeyRequired");
  expect(`${found?.status} ${found?.reason}`).toBe(expected);
  expect(found?.message).toMatch(message);
});

test("a key that nothing would check is named in SpecHonored, and no pod is made", () => {
  const status = statusOf({ ...safetensors, spec: { auth: AUTH, runtime: "tensorrt-llm" } });
  expect(getCondition(status.conditions, "SpecHonored")).toMatchObject({
    status: "False",
    reason: "GateNotInPods",
    message: expect.stringContaining("spec.auth"),
  });
});

const on = (layers: Offloaded["layers"], count?: string): Offload => ({
  known: [{ pod: "chat-1", offloaded: { layers, count } }],
  unread: 0,
});
const before = {
  conditions: [
    { type: "CPUFallback", status: "True", reason: "NoLayersOnGPU", message: "x", lastTransitionTime: NOW },
  ],
};

test.each<[string, Case, string, RegExp]>([
  ["a model for the CPU", {}, "False NoGPURequested", /^$/],
  [
    "an engine that needs a GPU",
    { ...safetensors, spec: { runtime: "vllm" } },
    "False EngineNeedsGPU",
    /vllm/,
  ],
  [
    "a pod whose log is not read yet",
    { hardware: cuda, offload: { known: [], unread: 1 } },
    "Unknown LogNotRead",
    /until/,
  ],
  [
    "what was known before a change of the leader",
    { hardware: cuda, before, offload: { known: [], unread: 1 } },
    "True NoLayersOnGPU",
    /x/,
  ],
  [
    "no GPU is usable",
    { hardware: cuda, offload: on("none") },
    "True NoLayersOnGPU",
    /1 of 1 ready pods: chat-1\..*driver/,
  ],
  [
    "some layers are left",
    { hardware: cuda, offload: on("some", "10 of 33 layers") },
    "True LayersOnCPU",
    /chat-1 \(10 of 33 layers on the GPU\)/,
  ],
  [
    "fewer layers are asked for",
    { hardware: { ...cuda, gpu: { count: 1, layers: 10 } }, offload: on("some") },
    "False LayersOnGPU",
    /^$/,
  ],
  ["all layers", { hardware: cuda, offload: on("all") }, "False LayersOnGPU", /^$/],
  [
    "a log that says nothing",
    { hardware: cuda, offload: { known: [{ pod: "chat-1" }], unread: 0 } },
    "Unknown LogSaysNothing",
    /cannot be read/,
  ],
])("CPUFallback: %s", (_, given, expected, message) => {
  const found = getCondition(statusOf(given).conditions, "CPUFallback");
  expect(`${found?.status} ${found?.reason}`).toBe(expected);
  expect(found?.message).toMatch(message);
});

test("weights that a pod cannot fetch are the reason that the download gives", () => {
  const message = JSON.stringify({
    code: "SourceUnauthorized",
    message: "401 from the hub",
    isRetryable: false,
  });
  const terminated = { exitCode: 1, message };
  const waiting = { reason: "CrashLoopBackOff", message: "back-off" };
  const status = statusOf({ init: { name: "fetch", state: { waiting }, lastState: { terminated } } });
  expect(status).toMatchObject({ phase: "Degraded", reason: "SourceUnauthorized" });
  expect(status.message).toContain("fetch of chat-1: 401 from the hub");
  const running = statusOf({ init: { name: "fetch", state: { running: {} } } });
  expect(running).toMatchObject({
    phase: "Creating",
    message: "0 of 1 replicas ready; 1 pod fetches the weights",
  });
});

test.each<[string, object, string | undefined]>([
  ["pods are replaced at once", {}, undefined],
  ["a change may have to wait for idle pods", { rolloutPolicy: { waitForIdle: true } }, "False AsExpected"],
  ["a policy that does not wait", { rolloutPolicy: { waitForIdle: false } }, undefined],
  [
    "pods are replaced by age, once idle",
    { maxPodLifetimeSeconds: 86_400, maxPodLifetimeIdleTimeoutSeconds: 600 },
    "False AsExpected",
  ],
])("RolloutDeferred where a rollout may have to wait: %s", (_, spec, expected) => {
  const found = getCondition(statusOf({ spec }).conditions, "RolloutDeferred");
  expect(found === undefined ? undefined : `${found.status} ${found.reason}`).toBe(expected);
});

test("a download that takes longer than the progress deadline does not fail the rollout", () => {
  const late = { type: "Progressing", status: "False", reason: "ProgressDeadlineExceeded" };
  const deployment = { metadata: { name: "chat" }, status: { conditions: [late] } } as unknown as Deployment;
  const whileRunning = (name: string) =>
    statusOf({ deployment, init: { name, state: { running: {} } } as ContainerStatus });
  expect(whileRunning("fetch")).toMatchObject({ phase: "Creating", reason: "ReplicasNotReady" });
  expect(whileRunning("proxy")).toMatchObject({ phase: "Degraded", reason: "RolloutDeadlineExceeded" });
});
