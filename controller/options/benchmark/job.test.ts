import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { BenchmarkPlan, Measurement } from "../../../src/api/benchmark.ts";
import { renderBenchmarkFailure, renderMeasurement } from "../../../src/capacity/benchmark/measurement.ts";
import type { ContainerStatus, Job, Pod } from "../../../src/kube/workload-objects.ts";
import { testGoldens } from "../../../test/golden/golden.ts";
import { type JobGolden, jobInput } from "./fixtures/job-input.ts";
import {
  benchmarkJob,
  benchmarkJobName,
  buildOfImage,
  type JobWait,
  jobOfPod,
  modelOfJob,
  readBenchmarkJob,
} from "./job.ts";

testGoldens(fileURLToPath(new URL("./golden", import.meta.url)), (golden: JobGolden) =>
  benchmarkJob(...jobInput(golden)),
);

const GGUF = { architecture: "llama", embeddingSize: 64, layerCount: 1, headCount: 1, headCountKV: 1 };
const plan: BenchmarkPlan = { warmups: 2, runs: 5, tokens: 128 };
const spec = { source: "hf://org/m/m.gguf", hardware: { accelerator: "cpu" } };
const cache = { phase: "Ready", reason: "", message: "", claimName: "cache", folder: "k", file: "m.gguf" };
const golden: JobGolden = {
  key: "k-cpu",
  runtime: "llamacpp",
  model: { spec, status: { cache } },
  plan,
  node: "n",
};

test.each<[string, Partial<JobGolden>, string]>([
  ["weights that are on no volume", { model: { spec } }, "WeightsNotCached"],
  ["a program without a health path", { runtime: "generic" }, "BenchmarkFailed"],
  ["a controller without an image", { image: "" }, "BenchmarkFailed"],
  ["an engine without an image", { runtime: "vllm" }, "ImageUnknown"],
])("%s cannot be measured", (_what, change, code) => {
  expect(() => benchmarkJob(...jobInput({ ...golden, ...change }))).toThrow(
    expect.objectContaining({ code }),
  );
});

test("names and labels are valid for the longest device class", () => {
  const key = `0123456789abcdef-${"x".repeat(63)}`;
  const { metadata } = benchmarkJob(...jobInput({ ...golden, key }));
  expect(metadata.name).toHaveLength(63);
  expect(metadata.name).not.toBe(benchmarkJobName(`${key.slice(0, -1)}y`));
  for (const value of Object.values(metadata.labels ?? {})) expect(value.length).toBeLessThanOrEqual(63);
});

test("a Job belongs to the Model that owns it, and to no Model of another namespace", () => {
  const [order, settings] = jobInput(golden);
  const job = benchmarkJob(order, settings);
  const modelOf = (key: string) => (key === "team-a/m" ? order.model : undefined);
  const withMetadata = (more: object): Job => ({ ...job, metadata: { ...job.metadata, ...more } });
  expect(modelOfJob(job, modelOf)).toBe(order.model);
  const [owner] = job.metadata.ownerReferences ?? [];
  for (const more of [
    { name: "theirs" },
    { namespace: "team-b" },
    { ownerReferences: [] },
    { ownerReferences: [{ ...owner, uid: "other" }] },
  ])
    expect(modelOfJob(withMetadata(more), modelOf)).toBeUndefined();
});

test("a pod belongs to the Job that controls it, whatever its labels say", () => {
  const labels = { "batch.kubernetes.io/controller-uid": "j1" };
  const reference = { apiVersion: "batch/v1", kind: "Job", name: "j", uid: "j1" };
  const jobOf = (more: object) =>
    jobOfPod({ metadata: { name: "p", namespace: "a", labels, ...more }, spec: { containers: [] } });
  expect(jobOf({ ownerReferences: [{ ...reference, controller: true }] })).toBe("a/j1");
  expect(jobOf({ ownerReferences: [reference] })).toBe("a/");
  expect(jobOf({})).toBe("a/");
});

test("the measurement ends within a third of the deadline", () => {
  const [order, settings] = jobInput(golden);
  const args = (more: object) =>
    benchmarkJob({ ...order, ...more }, settings).spec.template.spec.containers[0]?.args ?? [];
  expect(args({})).toContain("--seconds=600");
  expect(args({ plan: { ...plan, minSeconds: 30 } })).toContain("--seconds=30");
  expect(args({ plan: { ...plan, minSeconds: 900 } })).toContain("--seconds=600");
});

test.each([
  [1, 128],
  [127, 128],
  [2_048, 2_048],
  [131_072, 4_736],
])("a model that was trained with %i tokens is measured with a context of %i", (contextLength, expected) => {
  const gguf = { ...GGUF, contextLength };
  const [order, settings] = jobInput({ ...golden, model: { spec, status: { cache, gguf } } });
  const [engine] = benchmarkJob(order, settings).spec.template.spec.initContainers ?? [];
  expect(engine?.args?.join(" ")).toContain(`--ctx-size ${expected}`);
});

test.each([
  ["ghcr.io/ggml-org/llama.cpp:server-cuda-b9999", "server-cuda-b9999"],
  ["host:5000/a/b:v1", "v1"],
  ["host:5000/a/b", "latest"],
  [`host:5000/a/b:v1@sha256:${"ab".repeat(32)}`, "abababababab"],
])("the build in image %s is %s", (image, build) => {
  expect(buildOfImage(image)).toBe(build);
});

describe("the state of a Job", () => {
  const rate = { median: 41, spread: 0.02, samples: [41, 41.4, 40.6] };
  const measurement: Measurement = {
    build: "b1",
    measuredAt: "2026-11-26T10:00:00Z",
    tool: "requests",
    generation: rate,
  };
  const job = (reason?: string, message = ""): Job => {
    const failed = { type: "Failed", status: "True", reason, message } as const;
    return {
      metadata: { name: "j" },
      spec: { template: { spec: { containers: [] } }, activeDeadlineSeconds: 1_800 },
      status: { conditions: reason === undefined ? [] : [failed] },
    };
  };
  const pod = (
    bench: ContainerStatus["state"],
    engine: Partial<ContainerStatus> = {},
    more: object = {},
  ): Pod => ({
    metadata: { name: "p" },
    spec: { containers: [] },
    status: {
      initContainerStatuses: [{ name: "engine", ...engine }],
      containerStatuses: [{ name: "bench", state: bench }],
      ...more,
    },
  });
  const waiting = (reason: string, message?: string) => ({ waiting: { reason, message } });
  const exit = (exitCode: number, message?: string, reason = "Error") => ({
    terminated: { exitCode, message, reason, startedAt: "2026-11-26T10:00:30Z" },
  });
  const unscheduled = {
    conditions: [
      {
        type: "PodScheduled",
        status: "False",
        message: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
      },
    ],
  };
  const pending = pod(waiting("PodInitializing"), { state: waiting("ImagePullBackOff", "manifest unknown") });

  test.each<[string, Job, readonly Pod[], object, JobWait?]>([
    ["no pod", job(), [], { at: "pending" }],
    [
      "not scheduled",
      job(),
      [pod(undefined, {}, unscheduled)],
      { at: "pending", why: /not scheduled: 0\/3 nodes/, isUnscheduled: true },
    ],
    [
      "an image that cannot be pulled",
      job(),
      [pending],
      { at: "pending", why: /engine: ImagePullBackOff: manifest/ },
    ],
    [
      "an engine that loads",
      job(),
      [pod(waiting("PodInitializing"), { state: { running: {} } })],
      { at: "pending" },
    ],
    ["a measurement", job(), [pod({ running: {} }, { state: { running: {} } })], { at: "running" }],
    [
      "a result",
      job(),
      [
        pod(exit(0, renderMeasurement(measurement), "Completed"), {
          state: { running: { startedAt: "2026-11-26T10:00:00Z" } },
        }),
      ],
      { at: "done", measurement: { ...measurement, loadSeconds: 30 } },
    ],
    [
      "a result, and an engine that was stopped after it",
      job(),
      [pod(exit(0, renderMeasurement(measurement)), { state: exit(143), restartCount: 0 })],
      { at: "done" },
    ],
    [
      "an engine that was killed for its memory",
      job(),
      [pod(waiting("PodInitializing"), { restartCount: 1, lastState: exit(137, "", "OOMKilled") })],
      { at: "failed", code: "BenchmarkEngineFailed", message: /code 137 \(OOMKilled\)/ },
    ],
    [
      "an engine that refuses its arguments",
      job(),
      [pod(waiting("PodInitializing"), { state: exit(1, "loading\nerror: unknown model architecture\n") })],
      { at: "failed", code: "BenchmarkEngineFailed", message: /unknown model architecture/ },
    ],
    [
      "a refused request",
      job("BackoffLimitExceeded"),
      [pod(exit(1, renderBenchmarkFailure("answered 404: no such model")))],
      { at: "failed", code: "BenchmarkFailed", message: /404/ },
    ],
    [
      "a message that is no result",
      job("BackoffLimitExceeded"),
      [pod(exit(70, '{"generation": "fast"}'))],
      { at: "failed", code: "BenchmarkFailed", message: /left no result/ },
    ],
    [
      "a deadline before the pod started",
      job("DeadlineExceeded"),
      [],
      {
        at: "failed",
        code: "BenchmarkTimedOut",
        message: /1800 s; last: not scheduled: 0\/3/,
        isUnscheduled: true,
      },
      { why: "not scheduled: 0/3 nodes", isUnscheduled: true },
    ],
    [
      "a deadline with a pod",
      job("DeadlineExceeded"),
      [pending],
      { at: "failed", message: /last: container engine/, isUnscheduled: undefined },
    ],
  ])("%s", (_what, given, pods, expected, lastWait) => {
    const state: object = readBenchmarkJob(given, pods, lastWait);
    const matchers = Object.entries(expected).map(([key, value]) => [
      key,
      value instanceof RegExp ? expect.stringMatching(value) : value,
    ]);
    expect(state).toMatchObject(Object.fromEntries(matchers));
  });

  test("is read from any message and reason, with a short text", () => {
    const text = fc.string({ maxLength: 6_000 });
    fc.assert(
      fc.property(text, text, fc.integer(), (message, reason, exitCode) => {
        for (const end of [{ terminated: { exitCode, message, reason } }, waiting(reason, message)]) {
          const state = readBenchmarkJob(job(reason, message), [pod(end, { state: end })]);
          if (state.at === "failed") expect(state.message.length).toBeLessThanOrEqual(400);
        }
      }),
    );
  });
});
