/** Label sets as the vendors' labelers write them, and damaged ones. */
import { expect, test } from "vitest";
import type { NodeReport } from "../../api/node-report.ts";
import type { ResourceDevice, ResourceSlice } from "../../kube/workload-objects.ts";
import { type Devices, deviceClassOf } from "./devices.ts";
import { devicesOfNode } from "./node.ts";

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
type Strings = Readonly<Record<string, string>>;

const GFD_A100 = {
  "nvidia.com/gfd.timestamp": "1789984911",
  "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
  "nvidia.com/gpu.memory": "40960",
  "nvidia.com/gpu.count": "8",
  "nvidia.com/gpu.replicas": "1",
  "nvidia.com/gpu.compute.major": "8",
  "nvidia.com/gpu.compute.minor": "0",
  "nvidia.com/gpu.family": "ampere",
  "nvidia.com/mig.strategy": "none",
};
const A100 = {
  vendor: "NVIDIA",
  product: "NVIDIA-A100-SXM4-40GB",
  bytesEach: 40 * GIB,
  arch: "sm_80",
  int4: true,
  count: 8,
} as const;
const MIG_SINGLE = {
  ...GFD_A100,
  "nvidia.com/mig.strategy": "single",
  "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",
  "nvidia.com/gpu.memory": "4864",
  "nvidia.com/gpu.count": "7",
};
const MIG_MIXED = {
  ...GFD_A100,
  "nvidia.com/gpu.count": "1",
  "nvidia.com/mig.strategy": "mixed",
  "nvidia.com/mig-1g.5gb.count": "7",
  "nvidia.com/mig-1g.5gb.memory": "4864",
};
const MI300X = {
  "amd.com/gpu.device-id": "74a1",
  "amd.com/gpu.family": "AI",
  "amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM",
  "amd.com/gpu.vram": "191G",
  "amd.com/gpu.cu-count": "304",
};
const MI300X_OLD = {
  "beta.amd.com/gpu.device-id.74a1": "8",
  "beta.amd.com/gpu.family.AI": "8",
  "beta.amd.com/gpu.vram.191G": "8",
};
const amd = { vendor: "AMD", arch: "gfx942", int4: true, bytesEach: 191 * GIB, count: 8 } as const;
const NFD = "feature.node.kubernetes.io/";

type Case = readonly [string, Strings, Strings, Devices["gpu"], string | undefined];

test.each<Case>([
  ["GFD", GFD_A100, { "nvidia.com/gpu": "8" }, A100, "nvidia-a100-sxm4-40gb-x8"],
  [
    "GFD on an L40S",
    {
      "nvidia.com/gpu.product": "NVIDIA-L40S",
      "nvidia.com/gpu.memory": "46068",
      "nvidia.com/gpu.count": "1",
      "nvidia.com/gpu.compute.major": "8",
      "nvidia.com/gpu.compute.minor": "9",
    },
    { "nvidia.com/gpu": "1" },
    { vendor: "NVIDIA", product: "NVIDIA-L40S", bytesEach: 46068 * MIB, arch: "sm_89", int4: true, count: 1 },
    "nvidia-l40s",
  ],
  ["GFD without a device plugin", GFD_A100, {}, A100, "nvidia-a100-sxm4-40gb-x8"],
  [
    "MIG with equal slices",
    MIG_SINGLE,
    { "nvidia.com/gpu": "7" },
    { ...A100, product: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", bytesEach: 4864 * MIB, count: 7, isSliced: true },
    "nvidia-a100-sxm4-40gb-mig-1g-5gb-x7",
  ],
  [
    "MIG mixed with slices of one size",
    MIG_MIXED,
    { "nvidia.com/gpu": "0", "nvidia.com/mig-1g.5gb": "7" },
    { ...A100, product: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", bytesEach: 4864 * MIB, count: 7, isSliced: true },
    "nvidia-a100-sxm4-40gb-mig-1g-5gb-x7",
  ],
  [
    "MIG mixed with slices of two sizes",
    { ...MIG_MIXED, "nvidia.com/mig-3g.20gb.count": "1", "nvidia.com/mig-3g.20gb.memory": "19968" },
    { "nvidia.com/mig-1g.5gb": "4", "nvidia.com/mig-3g.20gb": "1" },
    { vendor: "NVIDIA", arch: "sm_80", int4: true, isSliced: true },
    undefined,
  ],
  [
    "MIG without a labeler",
    {},
    { "nvidia.com/mig-1g.5gb": "7" },
    { vendor: "NVIDIA", isSliced: true },
    undefined,
  ],
  [
    "time slicing",
    { ...GFD_A100, "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-SHARED" },
    { "nvidia.com/gpu": "32" },
    { ...A100, isShared: true },
    "nvidia-a100-sxm4-40gb-x8-shared",
  ],
  ["a node with two kinds of GPUs", GFD_A100, { "nvidia.com/gpu": "9" }, { vendor: "NVIDIA" }, undefined],
  ["a device plugin without a labeler", {}, { "nvidia.com/gpu": "2" }, { vendor: "NVIDIA" }, undefined],
  [
    "AMD",
    MI300X,
    { "amd.com/gpu": "8" },
    { ...amd, product: "AMD_Instinct_MI300X_OAM" },
    "amd-instinct-mi300x-oam-x8",
  ],
  ["AMD in the old form", MI300X_OLD, { "amd.com/gpu": "8" }, amd, "amd-gfx942-191gi-x8"],
  [
    "two kinds of AMD GPUs",
    { ...MI300X_OLD, "beta.amd.com/gpu.device-id.740f": "1" },
    { "amd.com/gpu": "9" },
    { vendor: "AMD" },
    undefined,
  ],
  [
    "Intel, whose memory is that of all GPUs",
    {
      "gpu.intel.com/product": "Max_1100",
      "gpu.intel.com/family": "Max_Series",
      "gpu.intel.com/device.count": "4",
      "gpu.intel.com/memory.max": String(4 * 48 * GIB),
    },
    { "gpu.intel.com/i915": "4" },
    { vendor: "Intel", product: "Max_1100", arch: "xe-hpc", bytesEach: 48 * GIB, count: 4 },
    "intel-max-1100-x4",
  ],
  [
    "Intel with shared GPUs",
    { "gpu.intel.com/product": "Flex_170", "gpu.intel.com/device.count": "1" },
    { "gpu.intel.com/xe": "3" },
    { vendor: "Intel", product: "Flex_170", arch: "xe-hpg", int4: true, count: 1, isShared: true },
    "intel-flex-170-shared",
  ],
  ["NFD alone", { [`${NFD}pci-0302_10de.present`]: "true" }, {}, { vendor: "NVIDIA" }, undefined],
  ["NFD of an accelerator", { [`${NFD}pci-1200_1002.present`]: "true" }, {}, { vendor: "AMD" }, undefined],
  ["NFD in the operator's form", { [`${NFD}pci-10de.present`]: "true" }, {}, { vendor: "NVIDIA" }, undefined],
  [
    "display outputs of processors",
    { [`${NFD}pci-0300_8086.present`]: "true", [`${NFD}pci-0300_1002.present`]: "true" },
    {},
    undefined,
    undefined,
  ],
  [
    "device plugins of two vendors",
    GFD_A100,
    { "nvidia.com/gpu": "8", "amd.com/gpu": "1" },
    { ...A100, hasOtherVendors: true },
    undefined,
  ],
  ["no GPU", { "kubernetes.io/arch": "amd64" }, { memory: "64Gi" }, undefined, undefined],
  [
    "labels that outlived their labeler and the GPUs",
    GFD_A100,
    { "nvidia.com/gpu": "0" },
    undefined,
    undefined,
  ],
  ["labels of AMD's removed labeler", MI300X, {}, undefined, undefined],
  [
    "invalid values",
    {
      "nvidia.com/gpu.product": "GPU",
      "nvidia.com/gpu.memory": "-1",
      "nvidia.com/gpu.count": "1e9",
      "nvidia.com/gpu.replicas": "many",
      "nvidia.com/gpu.compute.major": "x",
      "nvidia.com/mig.strategy": "none",
    },
    { "nvidia.com/gpu": "1" },
    { vendor: "NVIDIA", product: "GPU" },
    "nvidia-gpu",
  ],
  [
    "memory that no GPU has",
    { "amd.com/gpu.vram": "9999G", "amd.com/gpu.device-id": "ffff" },
    { "amd.com/gpu": "1" },
    { vendor: "AMD", count: 1 },
    undefined,
  ],
])("labels: %s", (_, labels, allocatable, gpu, deviceClass) => {
  const devices = devicesOfNode(
    { metadata: { name: "node", labels }, status: { allocatable } },
    [],
    undefined,
  );
  expect(devices.gpu).toEqual(gpu);
  expect(deviceClassOf(devices)).toBe(deviceClass);
});

test("an unhealthy GPU does not change the description of the others", () => {
  const status = { capacity: { "nvidia.com/gpu": "8" }, allocatable: { "nvidia.com/gpu": "7" } };
  expect(devicesOfNode({ metadata: { name: "n", labels: GFD_A100 }, status }, [], undefined).gpu).toEqual(
    A100,
  );
});

const dra = (
  devices: readonly ResourceDevice[],
  driver = "gpu.nvidia.com",
  generation = 1,
): ResourceSlice => ({
  metadata: { name: `${driver}-${generation}` },
  spec: { driver, nodeName: "node", pool: { name: "node", generation, resourceSliceCount: 1 }, devices },
});
const draGpu = (name: string, memory = "80Gi", more: Partial<ResourceDevice> = {}): ResourceDevice => ({
  name,
  attributes: {
    type: { string: "gpu" },
    productName: { string: "NVIDIA H100 80GB HBM3" },
    architecture: { string: "Hopper" },
    "gpu.nvidia.com/cudaComputeCapability": { version: "9.0.0" },
  },
  capacity: { memory: { value: memory } },
  ...more,
});
const draMig = (name: string, more: Partial<ResourceDevice> = {}): ResourceDevice => {
  const { attributes } = draGpu(name);
  const mig = { ...attributes, type: { string: "mig" }, profile: { string: "1g.10gb" } };
  return { name, attributes: mig, capacity: { memory: { value: "9856Mi" } }, ...more };
};
const H100 = {
  vendor: "NVIDIA",
  product: "NVIDIA H100 80GB HBM3",
  bytesEach: 80 * GIB,
  arch: "sm_90",
  int4: true,
} as const;

test.each<readonly [string, readonly ResourceSlice[], Devices["gpu"]]>([
  ["equal GPUs", [dra([draGpu("a"), draGpu("b")])], { ...H100, count: 2 }],
  [
    "GPUs of two sizes",
    [dra([draGpu("a"), draGpu("b", "40Gi")])],
    { vendor: "NVIDIA", arch: "sm_90", int4: true },
  ],
  [
    "a slice of an earlier generation",
    [dra([draGpu("a"), draGpu("b")]), dra([draGpu("a")], undefined, 2)],
    { ...H100, count: 1 },
  ],
  [
    "MIG slices",
    [dra([draMig("a"), draMig("b")])],
    {
      ...H100,
      product: "NVIDIA H100 80GB HBM3-MIG-1g.10gb",
      bytesEach: 9856 * MIB,
      count: 2,
      isSliced: true,
    },
  ],
  [
    "MIG slices that can be created",
    [dra([draGpu("a"), draMig("b", { consumesCounters: [{ counterSet: "gpu-0" }] })])],
    { ...H100, count: 1 },
  ],
  ["no devices", [dra([])], undefined],
  [
    "invalid values",
    [dra([{ name: "a", capacity: { memory: { value: "much" } } }])],
    { vendor: "NVIDIA", count: 1 },
  ],
  ["another driver", [dra([{ name: "a" }], "nic.example.com")], undefined],
])("ResourceSlices: %s", (_, slices, gpu) => {
  expect(devicesOfNode({ metadata: { name: "node" } }, slices, undefined).gpu).toEqual(gpu);
});

test("ResourceSlices take precedence over labels, which add the architecture", () => {
  const device = {
    name: "gpu-0",
    attributes: { productName: { string: "AMD Instinct MI300X" } },
    capacity: { memory: { value: "192Gi" } },
  };
  const node = {
    metadata: { name: "node", labels: MI300X },
    status: { allocatable: { "amd.com/gpu": "1" } },
  };
  const { gpu } = devicesOfNode(node, [dra([device], "gpu.amd.com")], undefined);
  expect(gpu).toMatchObject({
    product: "AMD Instinct MI300X",
    bytesEach: 192 * GIB,
    arch: "gfx942",
    count: 1,
  });
});

const L4 = { vendor: "nvidia", name: "NVIDIA L4", memoryBytes: 24 * GIB, count: 2, unified: false } as const;
const report = (...gpus: NodeReport["gpus"]) => ({ cpu: { name: "EPYC", cores: 8, avx512: true }, gpus });

test.each<readonly [string, Strings, Strings, NodeReport["gpus"], Devices["gpu"]]>([
  [
    "no labeler",
    {},
    {},
    [{ ...L4, arch: "sm_89" }],
    { vendor: "NVIDIA", product: "NVIDIA L4", bytesEach: 24 * GIB, count: 2, arch: "sm_89", int4: true },
  ],
  [
    "only a device plugin",
    {},
    { "nvidia.com/gpu": "2" },
    [L4],
    { vendor: "NVIDIA", product: "NVIDIA L4", bytesEach: 24 * GIB, count: 2 },
  ],
  ["a labeler", GFD_A100, { "nvidia.com/gpu": "8" }, [L4], A100],
  [
    "a device plugin of another vendor",
    {},
    { "amd.com/gpu": "1" },
    [L4],
    { vendor: "AMD", hasOtherVendors: true },
  ],
  [
    "two vendors",
    {},
    {},
    [L4, { ...L4, vendor: "intel", name: "Intel Arc" }],
    { vendor: "NVIDIA", hasOtherVendors: true },
  ],
  ["two kinds of GPUs", {}, {}, [L4, { ...L4, name: "NVIDIA A2" }], { vendor: "NVIDIA" }],
  ["a GPU in the processor", {}, {}, [{ ...L4, vendor: "intel", unified: true }], undefined],
])("the node report adds GPUs: %s", (_, labels, allocatable, gpus, expected) => {
  const node = { metadata: { name: "node", labels }, status: { allocatable } };
  expect(devicesOfNode(node, [], report(...gpus)).gpu).toEqual(expected);
});

test.each<readonly [string, Strings, boolean | undefined, boolean | undefined]>([
  ["present", { [`${NFD}cpu-cpuid.AVX512F`]: "true" }, undefined, true],
  ["absent beside other features", { [`${NFD}cpu-cpuid.AVX2`]: "true" }, undefined, false],
  ["unknown", {}, undefined, undefined],
  ["reported", {}, true, true],
])("AVX-512 is %s", (_, labels, avx512, expected) => {
  const cpu = avx512 === undefined ? undefined : { cpu: { avx512 }, gpus: [] };
  const node = { metadata: { name: "node", labels }, status: { capacity: { cpu: "8" } } };
  expect(devicesOfNode(node, [], cpu).cpu).toEqual({ cores: 8, avx512: expected });
});
