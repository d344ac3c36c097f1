/** Which flavors share a pod template, and what they put on a pod. */

import { describe, expect, test } from "vitest";
import { type BackendRuntimeSpec, backendRuntimeSchema } from "../../../../src/api/backend-runtime.ts";
import type { Flavor } from "../../../../src/api/flavors.ts";
import type { Model } from "../../../../src/api/model.ts";
import type { FlavorStage } from "../../../frame/service/path.ts";
import { inputOf } from "../fixtures/workload-input.ts";
import { buildWorkload } from "../workload.ts";
import { withStage } from "./build.ts";
import { stageContext, stageOf } from "./stage.ts";

const PRODUCT = "nvidia.com/gpu.product";
const gpu = (count: number) => ({ "nvidia.com/gpu": count });
const labeled = (name: string, more: Partial<Flavor> = {}): Flavor => ({
  name,
  nodeSelector: { [PRODUCT]: name },
  limits: gpu(1),
  ...more,
});
const mac: Flavor = { name: "mac", hostSelector: {} };

function stage(
  flavors: readonly Flavor[],
  taken: string,
  {
    classes = [],
    runtime,
    group,
    backend,
    hardware,
    affinity,
  }: {
    classes?: readonly string[];
    runtime?: "generic" | "vllm";
    group?: { size: number };
    backend?: BackendRuntimeSpec;
    hardware?: Model["spec"]["hardware"];
    affinity?: object;
  } = {},
): FlavorStage {
  const { service } = inputOf({
    service: { runtime, group, affinity },
    model: { source: "hf://org/m" },
    replicas: 1,
  });
  const found = flavors.find(({ name }) => name === taken);
  if (found === undefined) throw new Error(`no flavor ${taken}`);
  return stageOf(flavors, found, stageContext(service.spec, hardware, new Set(classes), backend));
}

const names = ({ by, flavors }: FlavorStage) => [by, ...flavors.map(({ name }) => name)].join(" ");

describe("stage", () => {
  test.each<[string, readonly Flavor[], string, string]>([
    [
      "only labels differ",
      [labeled("h100"), labeled("l40s"), labeled("a10")],
      "l40s",
      "labels h100 l40s a10",
    ],
    ["counts differ", [labeled("l40s"), labeled("a10", { limits: gpu(2) })], "l40s", "single l40s"],
    ["images differ", [labeled("l40s"), labeled("a10", { params: { image: "e:1" } })], "a10", "single a10"],
    ["hosts are between them", [labeled("h100"), mac, labeled("l40s")], "h100", "single h100"],
    ["hosts come first", [mac, labeled("h100"), labeled("l40s")], "h100", "labels h100 l40s"],
    ["one has no labels", [labeled("h100"), { name: "any", limits: gpu(1) }], "any", "single any"],
  ])("%s", (_, flavors, taken, expected) => {
    expect(names(stage(flavors, taken))).toBe(expected);
  });

  const devices = [
    { name: "two", deviceClass: "gpu.example.com", limits: gpu(2) },
    { name: "one", deviceClass: "gpu.example.com", limits: gpu(1) },
  ];
  const classes = ["gpu.example.com"];

  test("counts of devices differ only where no argument depends on them", () => {
    expect(names(stage(devices, "one", { classes, runtime: "generic" }))).toBe("devices two one");
    expect(names(stage(devices, "one", { classes, runtime: "vllm" }))).toBe("devices one");
  });

  test("without a term for all of them, the controller chooses: Karpenter drops required terms before preferences", () => {
    const labels = [labeled("h100"), labeled("l40s")];
    const hardware = { accelerator: "cuda", gpu: { memory: "24Gi", vendor: "nvidia" } } as const;
    expect(names(stage(labels, "l40s", { hardware }))).toBe("single l40s");
    const terms = (...nodeSelectorTerms: object[]) => ({
      nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } },
    });
    expect(names(stage(labels, "l40s", { affinity: terms({}) }))).toBe("labels h100 l40s");
    expect(names(stage(labels, "l40s", { affinity: terms({}, {}) }))).toBe("single l40s");
  });

  test("a BackendRuntime decides by its engine and its arguments", () => {
    const backendOf = (spec: object) => backendRuntimeSchema.parse({ metadata: { name: "e" }, spec }).spec;
    const program = backendOf({
      engine: "generic",
      image: "engine:1",
      args: ["--model", "{{ .ModelPath }}"],
    });
    expect(names(stage(devices, "one", { classes, backend: program }))).toBe("devices two one");
    const args = ["--tp", "{{ .TensorParallelSize }}"];
    const counting = { ...program, recommendedConfigs: [{ name: "default", args }] };
    expect(names(stage(devices, "one", { classes, backend: counting }))).toBe("devices one");
    expect(names(stage(devices, "one", { classes, backend: backendOf({ engine: "vllm" }) }))).toBe(
      "devices one",
    );
  });

  test("pods of a group have one flavor, so that the scheduler chooses for none of them", () => {
    const group = { size: 2 };
    const labels = [labeled("h100"), labeled("l40s")];
    expect(names(stage(labels, "l40s", { group }))).toBe("single l40s");
    expect(names(stage(devices, "two", { classes, runtime: "generic", group }))).toBe("devices two");
  });

  test("without the DeviceClass, limits are requested", () => {
    expect(names(stage(devices, "two", { runtime: "generic" }))).toBe("single two");
  });
});

describe("pod", () => {
  function podOf(
    flavors: readonly Flavor[],
    taken: string,
    options: { service?: object; classes?: string[] } = {},
  ) {
    const { service: fields = {}, classes } = options;
    const input = inputOf({
      service: { runtime: "generic", image: "engine:1", ...fields },
      model: { source: "hf://org/m/m.gguf" },
      weights: { claimName: "cache", folder: "k", file: "m.gguf" },
      replicas: 1,
      runtime: "generic",
    });
    const chosen = stage(flavors, taken, { classes: classes ?? [], runtime: "generic" });
    const { claimTemplate, ...flavored } = withStage(input.service, input.model, chosen);
    const { deployment } = buildWorkload({ ...input, ...flavored });
    const { containers, nodeSelector, affinity, resourceClaims } = deployment.spec.template.spec;
    const [{ resources, args, image } = {}] = containers;
    return { nodeSelector, affinity, resourceClaims, resources, args, image, claimTemplate };
  }

  test("one label: a required term and falling weights", () => {
    const { affinity, nodeSelector } = podOf([labeled("h100"), labeled("l40s"), labeled("a10")], "a10");
    expect(nodeSelector).toBeUndefined();
    expect(affinity).toMatchObject({
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [
            { matchExpressions: [{ key: PRODUCT, operator: "In", values: ["h100", "l40s", "a10"] }] },
          ],
        },
        preferredDuringSchedulingIgnoredDuringExecution: [
          { weight: 100, preference: { matchExpressions: [{ key: PRODUCT, values: ["h100"] }] } },
          { weight: 50, preference: { matchExpressions: [{ key: PRODUCT, values: ["l40s"] }] } },
        ],
      },
    });
  });

  test("several labels: required terms in order, and no preference, which Karpenter would relax last", () => {
    const zoned = labeled("l40s", { nodeSelector: { [PRODUCT]: "l40s", zone: "a" } });
    const affinity = podOf([zoned, labeled("a10")], "l40s", {
      service: {
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [{ matchExpressions: [{ key: "disk", operator: "Exists" }] }],
            },
          },
        },
      },
    }).affinity;
    const disk = { key: "disk", operator: "Exists" };
    const is = (key: string, value: string) => ({ key, operator: "In", values: [value] });
    expect(affinity).toEqual({
      nodeAffinity: {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [
            { matchExpressions: [disk, is(PRODUCT, "l40s"), is("zone", "a")] },
            { matchExpressions: [disk, is(PRODUCT, "a10")] },
          ],
        },
      },
    });
  });

  test("one flavor: its labels, limits, image and arguments, which those of the service override", () => {
    const a10 = labeled("a10", {
      limits: { "nvidia.com/gpu": 2, memory: "64Gi", cpu: 8 },
      params: { args: ["--mode", "fast"], image: "other:1" },
    });
    const pod = podOf([a10], "a10", {
      service: { args: ["--mode", "safe"], nodeSelector: { zone: "a" }, resources: { cpu: 2 } },
    });
    expect(pod).toMatchObject({
      image: "engine:1",
      args: ["--mode", "fast", "--mode", "safe"],
      nodeSelector: { [PRODUCT]: "a10", zone: "a" },
      resources: {
        requests: { "nvidia.com/gpu": "2", memory: "64Gi", cpu: "2" },
        limits: { "nvidia.com/gpu": "2", memory: "64Gi", cpu: "8" },
      },
    });
    expect(podOf([a10], "a10", { service: { image: undefined, command: ["/engine"] } }).image).toBe(
      "other:1",
    );
  });

  test("devices: a claim with the first available device, and no other GPUs", () => {
    const flavors = [
      { name: "two", deviceClass: "gpu.example.com", limits: gpu(2) },
      { name: "one", deviceClass: "small.example.com" },
    ];
    const classes = ["gpu.example.com", "small.example.com"];
    const { claimTemplate, resourceClaims, resources } = podOf(
      [flavors[0] ?? mac, { ...flavors[1], name: "one", limits: gpu(1) }],
      "two",
      { classes },
    );
    expect(claimTemplate?.spec.spec.devices.requests).toEqual([
      {
        name: "flavor",
        firstAvailable: [
          { name: "two", deviceClassName: "gpu.example.com", allocationMode: "ExactCount", count: 2 },
          { name: "one", deviceClassName: "small.example.com", allocationMode: "ExactCount", count: 1 },
        ],
      },
    ]);
    expect(resourceClaims).toEqual([
      { name: "flavor", resourceClaimTemplateName: claimTemplate?.metadata.name },
    ]);
    expect(resources?.claims).toEqual([{ name: "flavor" }]);
    expect(resources?.limits).toBeUndefined();
  });
});

test("sizes of a flavor reach the engine, and those of the runtime's settings override them", () => {
  const flavor = labeled("a10", { limits: gpu(2), params: { pipelineParallelSize: 2 } });
  const argsOf = (service: object) => {
    const input = inputOf({
      service: { runtime: "vllm", ...service },
      model: { source: "hf://org/m", format: "safetensors" },
      replicas: 1,
      runtime: "vllm",
    });
    const { claimTemplate: _, ...flavored } = withStage(input.service, input.model, {
      by: "single",
      flavors: [flavor],
    });
    const [engine] = buildWorkload({ ...input, ...flavored }).deployment.spec.template.spec.containers;
    return (engine?.args ?? []).filter((text, index, all) => /parallel/.test(text + (all[index - 1] ?? "")));
  };
  expect(argsOf({})).toEqual(["--pipeline-parallel-size", "2"]);
  const refused = () => argsOf({ vllmConfig: { tensorParallelSize: 2 } });
  expect(refused).toThrow(/2 tensor and 2 pipeline shards need 4 GPUs, and a pod has 2/);
});
