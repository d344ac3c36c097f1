import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readBenchmarks } from "../../src/capacity/benchmark/table.ts";
import type { Devices } from "../../src/capacity/devices/devices.ts";
import { DEFAULT_SCORE_WEIGHTS } from "../../src/capacity/score.ts";
import {
  ANY_GPU,
  classOf,
  measuredModel,
  measuredService,
  measuredTable,
} from "../../test/bed/gpu-classes.ts";
import {
  type ExtenderNeed,
  mismatchOf,
  type NodeFacts,
  needOf,
  scoreCandidates,
  scoreOnFlavor,
} from "./decide.ts";
import type { ExtenderPod } from "./protocol.ts";

const GIB = 1024 ** 3;
const table = readBenchmarks(measuredTable());
const podWith = (limits: Readonly<Record<string, string>>): ExtenderPod => ({
  metadata: { name: "chat-1", namespace: "default", uid: "u", labels: {} },
  spec: { containers: [{ resources: { limits } }] },
});
const needWith = (
  limits: Readonly<Record<string, string>>,
  spec: object = {},
  ofService: object = {},
  status: object = {},
): ExtenderNeed => {
  const model = measuredModel("default");
  const service = measuredService("default");
  return needOf(
    podWith(limits),
    { ...service, spec: { ...service.spec, ...ofService } },
    { ...model, spec: { ...model.spec, ...spec }, status: { ...model.status, ...status } },
    table,
  );
};
const facts = (gpu: Devices["gpu"], more: Partial<NodeFacts> = {}): NodeFacts => ({
  devices: { gpu },
  deviceClass: undefined,
  utilization: undefined,
  cost: undefined,
  ...more,
});
const ONE = { "nvidia.com/gpu": "1" };
const SAFETENSORS = { format: "safetensors" };
const gpu = (memory: string) => ({ hardware: { accelerator: "cuda", gpu: { memory, vendor: "nvidia" } } });

test.each<[string | undefined, string, ExtenderNeed, Devices["gpu"]]>([
  [undefined, "a GPU that is large enough", needWith(ONE), { vendor: "NVIDIA", bytesEach: 24 * GIB }],
  [
    "GPU has 10 GiB of memory, the model needs 13 GiB",
    "a small GPU",
    needWith(ONE),
    { vendor: "NVIDIA", bytesEach: 10 * GIB },
  ],
  [
    undefined,
    "half of the weights",
    needWith({ "nvidia.com/gpu": "2" }),
    { vendor: "NVIDIA", bytesEach: 7 * GIB },
  ],
  [undefined, "embeddings in memory", needWith(ONE), { vendor: "NVIDIA", bytesEach: 12 * GIB }],
  [
    undefined,
    "also GPUs of another vendor",
    needWith(ONE),
    { vendor: "AMD", bytesEach: 4 * GIB, hasOtherVendors: true },
  ],
  ...[
    { tensorOverrides: ["exps=CPU"] },
    { extraArgs: ["--n-cpu-moe", "4"] },
    { extraArgs: ["-ngl", "4"] },
    { vllmConfig: { cpuOffloadGB: 40 } },
    { vllmConfig: { quantization: "bitsandbytes" } },
    { gpuLayers: 4 },
  ].map((ofService): [string | undefined, string, ExtenderNeed, Devices["gpu"]] => [
    undefined,
    `a service with ${JSON.stringify(ofService)}`,
    needWith(ONE, {}, ofService),
    { vendor: "NVIDIA", bytesEach: 4 * GIB },
  ]),
  ["GPU vendor is AMD, the model needs NVIDIA", "another vendor", needWith(ONE), { vendor: "AMD" }],
  [
    "GPU vendor is AMD, the model needs NVIDIA",
    "a resource without vendor",
    needWith({ [ANY_GPU]: "1" }),
    { vendor: "AMD" },
  ],
  [undefined, "an AMD GPU for AMD", needWith({ "amd.com/gpu": "1" }), { vendor: "AMD", bytesEach: 24 * GIB }],
  [
    "MIG slice has 5 GiB of memory, the model needs 13 GiB",
    "a small slice",
    needWith({ "nvidia.com/mig-1g.5gb": "1" }),
    { vendor: "NVIDIA", bytesEach: 40 * GIB },
  ],
  [
    "MIG slice has 4.8 GiB of memory, the model needs 13 GiB",
    "a node of slices",
    needWith(ONE),
    { vendor: "NVIDIA", bytesEach: 4.75 * GIB, isSliced: true },
  ],
  [undefined, "an unknown size", needWith(ONE), { vendor: "NVIDIA" }],
  [undefined, "no known GPU", needWith(ONE), undefined],
  [undefined, "a pod without GPUs", needWith({ cpu: "1" }), { vendor: "AMD" }],
  [
    undefined,
    "a stated minimum, sold as such",
    needWith(ONE, gpu("24Gi")),
    { vendor: "NVIDIA", bytesEach: 22.5 * GIB },
  ],
  [
    undefined,
    "weights partly in memory",
    needWith(ONE, { hardware: { gpu: { layers: 10 } } }),
    { vendor: "NVIDIA", bytesEach: 4 * GIB },
  ],
  ...(
    [
      ["AWQ", needWith(ONE, { ...SAFETENSORS, quantization: "AWQ" })],
      ["AWQ", needWith(ONE, SAFETENSORS, {}, { quantization: "awq-4bit" })],
      ["AWQ", needWith(ONE, { ...SAFETENSORS, quantization: "awq" }, {}, { quantization: "gptq-4bit" })],
      ["FP8", needWith(ONE, SAFETENSORS, {}, { quantization: "fbgemm_fp8" })],
      ["FP8", needWith(ONE, SAFETENSORS, { vllmConfig: { quantization: "fp8" } })],
      ["INT4", needWith(ONE, SAFETENSORS, {}, { quantization: "int4" })],
      [undefined, needWith(ONE, SAFETENSORS, {}, { quantization: "gptq-4bit" })],
      [
        undefined,
        needWith(ONE, SAFETENSORS, { vllmConfig: { quantization: "gptq" } }, { quantization: "awq-4bit" }),
      ],
      [undefined, needWith({ "amd.com/gpu": "1" }, SAFETENSORS, {}, { quantization: "fp8" })],
      [undefined, needWith(ONE, {}, {}, { quantization: "MXFP4" })],
    ] as const
  ).map(([named, need]): [string | undefined, string, ExtenderNeed, Devices["gpu"]] => [
    named && `GPU sm_70 is older than compute capability 7.5, which ${named} needs: Turing (T4) or later`,
    `${named} on a GPU before Turing`,
    need,
    { vendor: need.vendor ?? "NVIDIA", arch: "sm_70", int4: false },
  ]),
])("the node is rejected with %s: %s", (why, _, need, devices) => {
  expect(mismatchOf(need, facts(devices))).toBe(why);
});

test("the fastest of the cheap and idle nodes has the highest score, and an unknown one is in the middle", () => {
  const nodes = new Map<string, NodeFacts>([
    ["fast", facts(undefined, { deviceClass: classOf("a100"), cost: 2, utilization: 0.1 })],
    ["dear", facts(undefined, { deviceClass: classOf("a100"), cost: 5, utilization: 0.9 })],
    ["slow", facts(undefined, { deviceClass: classOf("l4"), cost: 2, utilization: 0.1 })],
  ]);
  const names = ["slow", "fast", "unknown", "dear"];
  const { scores, why } = scoreCandidates(
    names,
    needWith(ONE),
    (name) => nodes.get(name),
    DEFAULT_SCORE_WEIGHTS,
  );
  expect(scores).toEqual([4, 9, 5, 7]);
  expect(why(1)).toBe("0.64: 80 of 80 tokens/s (measured), 10% in use, cost 2 of 5");
  expect(why(2)).toBe("0.20: speed unknown, load unknown, cost unknown");
});

describe("flavors", () => {
  const flavors = ["h100", "a100", "l4"].map((name) => ({ name, nodeSelector: { gpu: name } }));
  const expression = (...values: string[]) => ({ key: "gpu", operator: "In", values });
  const offered = (...nodeSelectorTerms: object[]) => {
    const pod = podWith(ONE);
    const required = { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms } };
    const affinity = { nodeAffinity: required } as ExtenderPod["spec"]["affinity"];
    const model = measuredModel("default");
    return needOf(
      { ...pod, spec: { ...pod.spec, affinity } },
      measuredService("default"),
      { ...model, spec: { ...model.spec, flavors } },
      table,
    );
  };
  const on = (gpu: string, more: Partial<NodeFacts> = {}) => facts(undefined, { labels: { gpu }, ...more });

  test("a node of an earlier flavor has a higher score than a faster one of a later flavor", () => {
    const nodes = new Map([
      ["slow", on("h100", { deviceClass: classOf("l4"), utilization: 1 })],
      ["fast", on("a100", { deviceClass: classOf("a100"), utilization: 0 })],
      ["busy", on("a100", { deviceClass: classOf("l4"), utilization: 1 })],
      ["last", on("l4", { deviceClass: classOf("a100"), utilization: 0 })],
    ]);
    const names = ["last", "busy", "slow", "fast", "unknown"];
    const terms = flavors.map(({ name }) => ({ matchExpressions: [expression(name)] }));
    for (const need of [
      offered(...terms),
      offered({ matchExpressions: [expression("h100", "a100", "l4")] }),
    ]) {
      const { scores, why } = scoreCandidates(names, need, (name) => nodes.get(name), DEFAULT_SCORE_WEIGHTS);
      expect(scores).toEqual([1, 5, 9, 6, 1]);
      expect(why(2)).toMatch(/^flavor h100, /);
    }
  });

  test("only flavors that the pod allows count, and one alone is no choice", () => {
    expect(offered({ matchExpressions: [expression("h100", "l4")] }).flavors.map(({ name }) => name)).toEqual(
      ["h100", "l4"],
    );
    expect(offered({ matchExpressions: [expression("l4")] }).flavors).toEqual([]);
    expect(offered({ matchExpressions: [{ key: "gpu", operator: "Exists" }] }).flavors).toEqual([]);
    expect(needWith(ONE, { flavors }).flavors).toEqual([]);
  });

  test.each([2, 3, 4, 5, 6, 7, 8])("the scores of %i flavors do not overlap", (count) => {
    for (let index = 1; index < count; index++) {
      expect(scoreOnFlavor(0, index - 1, count)).toBeGreaterThan(scoreOnFlavor(1, index, count));
    }
    expect([scoreOnFlavor(1, 0, count), scoreOnFlavor(0, undefined, count)]).toEqual([10, 0]);
  });
});

test("any facts give every node a whole score from 0 to 10", () => {
  const figure = fc.option(fc.oneof(fc.double(), fc.integer()), { nil: undefined });
  const deviceClass = fc.constantFrom(undefined, "", "__proto__", classOf("a100"), classOf("l4"));
  const node = fc.option(fc.record({ deviceClass, utilization: figure, cost: figure }), { nil: undefined });
  fc.assert(
    fc.property(fc.array(node), (list) => {
      const names = list.map((_, index) => `n${index}`);
      const factsOf = (name: string) => {
        const one = list[Number(name.slice(1))];
        return one && { devices: {}, ...one };
      };
      const { scores } = scoreCandidates(names, needWith(ONE), factsOf, DEFAULT_SCORE_WEIGHTS);
      expect(scores).toHaveLength(names.length);
      for (const score of scores) expect([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).toContain(score);
    }),
  );
});
