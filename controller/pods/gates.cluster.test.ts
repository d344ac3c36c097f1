/** placement.mode Auto with the real API server, controller and scheduler, and kwok's nodes of several GPU classes. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { BenchmarkResult } from "../../src/api/benchmark.ts";
import { getCondition } from "../../src/api/conditions.ts";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { BENCHMARKS_NAME, benchmarkKey } from "../../src/capacity/benchmark/table.ts";
import { GGUF } from "../../src/capacity/testing/models.ts";
import { engineDescription } from "../../src/engines/registry.ts";
import type { Deployment } from "../../src/kube/workload-objects.ts";
import { whyNoSimulatedNodes } from "../../test/bed/kwok.ts";
import {
  type Bench,
  createNamespaceWithCache,
  gpuNode,
  inferenceService,
  startBench,
} from "../../test/controller/bench.ts";
import { buildOfImage } from "../options/benchmark/job.ts";
import { createObserver } from "./fixtures/observe.ts";

const why = whyNoSimulatedNodes();
const NS = "gates";
const CONTENT = "ab".repeat(32);
const L40S = "nvidia-l40s";
const H200 = "nvidia-h200";

function resultOf(deviceClass: string, median: number): readonly [string, string] {
  const settings = {};
  const result: BenchmarkResult = {
    model: "hf://org/model",
    deviceClass,
    machine: "some-node",
    runtime: "llamacpp",
    build: buildOfImage(engineDescription("llamacpp")?.pod?.images.cuda ?? ""),
    settings,
    measuredAt: new Date().toISOString(),
    tool: "requests",
    generation: { median, spread: 0, samples: [median] },
  };
  const key = benchmarkKey({ content: CONTENT, runtime: "llamacpp", settings }, deviceClass);
  return [key, JSON.stringify(result)];
}

describe.skipIf(why !== undefined)(`scheduling gates (${why ?? "simulated nodes"})`, () => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await startBench({
      flags: { benchmarks: "Off" },
      nodes: [
        gpuNode("l40s-1", "NVIDIA-L40S", 45, 4),
        gpuNode("h200-1", "NVIDIA-H200", 141, 4),
        gpuNode("small-1", "NVIDIA-T4", 2, 4),
      ],
    });
    await createNamespaceWithCache(bench, NS);
  });
  afterAll(() => bench?.[Symbol.asyncDispose](), 60_000);

  const { get, podsOf, seePods, uidsOf, nodesOf } = createObserver(NS, () => bench);
  const patch = (what: string, change: object) => bench.objects.patch(NS, what, change);
  const until = (name: string, expected: object) =>
    bench.serviceUntil(NS, name, ({ status }) => expect(status).toMatchObject(expected));
  const scored = (name: string, message: RegExp) =>
    bench.serviceUntil(NS, name, ({ status }) =>
      expect(getCondition(status?.conditions, "NodesScored")?.message).toMatch(message),
    );
  /** The reason that pods with a node have, once any has one. */
  const seeReason = (name: string, reason: RegExp) =>
    seePods(name, (pods) =>
      expect(
        pods
          .filter(({ spec }) => spec.nodeName !== undefined)
          .map(({ metadata }) => metadata.annotations?.["metalbridge.dev/placement-reason"]),
      ).toContainEqual(expect.stringMatching(reason)),
    );
  const measure = (l40s: number, h200: number) =>
    bench.apply({
      apiVersion: "v1",
      kind: "ConfigMap",
      metadata: { name: BENCHMARKS_NAME, namespace: NAMESPACE_SYSTEM },
      data: Object.fromEntries([resultOf(L40S, l40s), resultOf(H200, h200)]),
    });

  test("each pod goes to the class that is fastest when it starts, and pods wait while no controller runs", async () => {
    const source = "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf";
    await bench.model(NS, "qwen", { accelerator: "cuda", gib: 5, source, gpus: 1 });
    const size = 5 * 2 ** 30;
    const claim = { claimName: "metalbridge-model-cache", folder: "qwen", file: "qwen.gguf" };
    await bench.markReady(NS, "qwen", {
      ...{
        format: "gguf",
        gguf: GGUF,
        files: ["qwen.gguf"],
        sizeBytes: size,
        weightsBytes: size,
        sha256: CONTENT,
      },
      cache: { phase: "Ready", reason: "Downloaded", message: "", ...claim },
    });
    await measure(90, 40);
    const spec = { modelRef: "qwen", placement: { mode: "Auto" }, rollout: { maxSurge: 1 } };
    await bench.apply(inferenceService(NS, "chat", { ...spec, replicas: 0 }));
    // The watch of the results may be behind the one of the service.
    await scored("chat", /l40s-1 \(0.70: 90 of 90 tokens/);
    await patch("isvc/chat", { spec: { replicas: 1 } });
    await until("chat", { phase: "Ready", ready: "1/1" });
    expect(await nodesOf("chat")).toEqual(["l40s-1"]);
    await scored(
      "chat",
      /^prefers: l40s-1 \(0\.\d\d: 90 of 90 tokens\/s \(measured\), 25% in use\), h200-1 \(0\.31: 40 of 90 .*\); kept out: small-1 \(offers 1.8 GiB of the/,
    );
    const [first] = await podsOf("chat");
    expect(first?.spec.schedulingGates).toBeUndefined();
    expect(first?.metadata.annotations).toMatchObject({
      "metalbridge.dev/placement-reason": expect.stringMatching(/^prefers: l40s-1 \(0.70: 90 of 90 /),
      "metalbridge.dev/placement-score": "0.70",
    });

    const { generation } = (await get<Deployment>("deployment/chat")).metadata;
    await measure(10, 40);
    await bench.objects.patch("", "node/l40s-1", {
      metadata: { annotations: { "metalbridge.dev/cost": "3" } },
    });
    await scored(
      "chat",
      /^prefers: h200-1 \(.*cost unknown\), l40s-1 \(.*cost 3 of 3\); an unknown speed or cost counts/,
    );
    expect((await get<Deployment>("deployment/chat")).metadata.generation).toBe(generation);
    await patch("isvc/chat", { spec: { replicas: 2 } });
    await until("chat", { phase: "Ready", ready: "2/2" });
    expect([...(await nodesOf("chat"))].sort()).toEqual(["h200-1", "l40s-1"]);
    expect(await uidsOf("chat")).toContain(first?.metadata.uid);

    await bench.stopController();
    const before = await uidsOf("chat");
    await bench.objects.startRemoval(NS, `pod/${first?.metadata.name}`);
    await seePods("chat", (pods) => {
      const fresh = pods.find(({ metadata }) => !before.includes(metadata.uid ?? ""));
      const gated = expect.objectContaining({ reason: "SchedulingGated" });
      expect(fresh?.status?.conditions).toContainEqual(gated);
    });
    await bench.restartController();
    await seePods("chat", (pods) =>
      expect(pods.map(({ spec }) => spec.nodeName)).toEqual(["h200-1", "h200-1"]),
    );
    await until("chat", { phase: "Ready", ready: "2/2" });
  });

  test("a pod that waits is replaced once a node that it avoids fits, and pods of a change without a Model start", async () => {
    await patch("isvc/chat", { spec: { replicas: 9 } });
    await until("chat", { phase: "WaitingForGPU", readyReplicas: 8 });
    const waiting = async () => (await podsOf("chat")).filter(({ spec }) => spec.nodeName === undefined);
    const [pending] = await waiting();
    const labels = { "nvidia.com/gpu.memory": String(24 * 1024) };
    await bench.objects.patch("", "node/small-1", { metadata: { labels } });
    await until("chat", { phase: "Ready", ready: "9/9" });
    expect(await uidsOf("chat")).not.toContain(pending?.metadata.uid);
    expect(await nodesOf("chat")).toContain("small-1");

    await bench.objects.remove(NS, "model/qwen");
    const [lost] = await podsOf("chat");
    await bench.objects.remove(NS, `pod/${lost?.metadata.name}`);
    // The status may still be the one from before the deletion.
    await seeReason("chat", /^no node is preferred: .*Model qwen/);
    await until("chat", { readyReplicas: 9 });

    await patch("isvc/chat", { spec: { placement: { on: "Hosts" } } });
    await until("chat", {
      on: "Pods",
      observedGeneration: (await bench.service(NS, "chat")).metadata.generation,
    });
    const [replaced] = await podsOf("chat");
    await bench.objects.remove(NS, `pod/${replaced?.metadata.name}`);
    await seeReason("chat", /^the service moves to hosts$/);
  });

  test("kube-scheduler allocates the devices of claims in the order of a prioritized list, and the status names them", async () => {
    const resource = { apiVersion: "resource.k8s.io/v1" };
    const driver = "gpu.example.com";
    const selectors = [{ cel: { expression: `device.driver == "${driver}"` } }];
    await bench.apply({ ...resource, kind: "DeviceClass", metadata: { name: "gpu" }, spec: { selectors } });
    for (const [node, memory] of [
      ["l40s-1", "45Gi"],
      ["h200-1", "141Gi"],
    ])
      await bench.apply({
        ...resource,
        kind: "ResourceSlice",
        metadata: { name: `${node}-gpus` },
        spec: {
          ...{ driver, nodeName: node, pool: { name: node, generation: 1, resourceSliceCount: 1 } },
          devices: [{ name: "gpu-0", capacity: { memory: { value: memory } } }],
        },
      });
    const atLeast = (memory: string) => ({
      cel: {
        expression: `device.capacity["${driver}"].memory.compareTo(quantity("${memory}")) >= 0`,
      },
    });
    const firstAvailable = [
      { name: "large", deviceClassName: "gpu", selectors: [atLeast("80Gi")] },
      { name: "any", deviceClassName: "gpu" },
    ];
    await bench.apply({
      ...resource,
      kind: "ResourceClaimTemplate",
      metadata: { name: "one-gpu", namespace: NS },
      spec: { spec: { devices: { requests: [{ name: "gpu", firstAvailable }] } } },
    });
    const resourceClaims = [{ name: "gpu", resourceClaimTemplateName: "one-gpu" }];
    const source = "https://models.example/tiny.gguf";
    const hardware = { accelerator: "cuda", gpu: { count: 1, resourceClaims } };
    await bench.model(NS, "claimed", { accelerator: "cuda", gpus: 1, source });
    await patch("model/claimed", { spec: { hardware } });
    await bench.apply(inferenceService(NS, "claims", { modelRef: "claimed", rollout: { maxSurge: 1 } }));
    const placed = (message: RegExp) =>
      bench.serviceUntil(NS, "claims", ({ status }) =>
        expect(getCondition(status?.conditions, "Placed")).toMatchObject({
          status: "True",
          message: expect.stringMatching(message),
        }),
      );
    await until("claims", { phase: "Ready", ready: "1/1" });
    await placed(/^claims-\S+ on h200-1 \(gpu\/large: gpu-0 of gpu.example.com\)$/);
    await patch("isvc/claims", { spec: { replicas: 2 } });
    await until("claims", { phase: "Ready", ready: "2/2" });
    await placed(/on l40s-1 \(gpu\/any: gpu-0 of gpu.example.com\)/);
    await patch("isvc/claims", { spec: { replicas: 3 } });
    await until("claims", { phase: "WaitingForGPU", readyReplicas: 2 });
  });
});
