/** Reports of nodes: the data that is used, and the data that is refused. */
import { expect, test } from "vitest";
import { type NodeReport, readNodeReport, steadyReport } from "../../src/api/node-report.ts";
import { createDensity } from "./density.ts";
import { createFitIndex } from "./fits.ts";
import { A100S, aHost, aNode, catalogRecords } from "./fixtures/fleet.ts";
import { machineFromHost, machineFromNode, machineFromReport } from "./place.ts";
import { installedOn, nodeRow } from "./views.ts";

const GIB = 1024 ** 3;
const NOW = { wallMs: 0, monotonicMs: 0 };
const REPORT: NodeReport = {
  memory: { totalBytes: 125 * GIB, availableBytes: 30 * GIB },
  cpu: { name: "Intel(R) Xeon(R) Gold 6330", cores: 64, arch: "amd64" },
  gpus: [],
  runtimes: [{ name: "ollama", version: "0.12.1" }],
  models: [{ name: "ollama://qwen3:8b", runtime: "ollama", sizeBytes: 5 * GIB }],
  leftOut: [],
};
const A100 = { vendor: "nvidia", name: "NVIDIA A100-SXM4-80GB", count: 4, unified: false } as const;

function rowOf(node: ReturnType<typeof aNode>, text: string | undefined) {
  const density = createDensity(createFitIndex(catalogRecords().slice(0, 20)));
  density.setPlace("Node", "node", machineFromNode(node, readNodeReport(text)));
  return density.sites().map((site) => nodeRow(density, site, NOW))[0];
}

test("a report adds data that a Node lacks: processor, free memory, programs, models", () => {
  expect(rowOf(aNode("node"), JSON.stringify(REPORT))).toMatchObject({
    stale: false,
    memoryLeftGb: 30,
    system: { cpu_name: "Intel(R) Xeon(R) Gold 6330", cpu_cores: 64, available_ram_gb: 30 },
    runtimes: [{ name: "ollama", version: "0.12.1", installed: true }],
    installedModels: [{ name: "ollama://qwen3:8b", runtime: "ollama", sizeGb: 5 }],
  });
});

test("GPUs have the memory that their driver reports, and the count that a device plugin offers", () => {
  const text = JSON.stringify({ ...REPORT, gpus: [{ ...A100, memoryBytes: 80 * GIB }] });
  const plugin = aNode("node", { allocatable: A100S.allocatable });
  expect(rowOf(plugin, JSON.stringify(REPORT))?.problem).toContain("the memory size of its GPUs");
  expect(rowOf(plugin, text)).toMatchObject({ memoryLeftGb: 288, system: { gpu_vram_gb: 80, gpu_count: 4 } });
  expect(rowOf(plugin, text)?.problem).toBeUndefined();
  expect(rowOf(aNode("node"), text)).toMatchObject({ memoryLeftGb: 30, system: { has_gpu: true } });
});

test("the size of GPUs is read from labels if a report lacks it", () => {
  for (const gpus of [[], [A100]]) {
    const row = rowOf(aNode("node", A100S), JSON.stringify({ ...REPORT, gpus }));
    expect(row).toMatchObject({
      system: { gpu_vram_gb: 80, gpu_count: 4, gpu_name: "NVIDIA A100 SXM4 80GB", cpu_cores: 64 },
    });
  }
  // Without a label, the report has the more specific name.
  const plugin = aNode("node", { allocatable: A100S.allocatable });
  const text = JSON.stringify({ ...REPORT, gpus: [A100] });
  expect(rowOf(plugin, text)?.system).toMatchObject({ gpu_vram_gb: null, gpu_name: A100.name });
});

test.each([
  ["by its strategy", { "nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "NVIDIA-A100" }],
  ["by its product", { "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb" }],
])(
  "the size of GPU partitions is read from labels, even if a report has the size of whole GPUs: %s",
  (_, labels) => {
    const text = JSON.stringify({ ...REPORT, gpus: [{ ...A100, memoryBytes: 80 * GIB, count: 1 }] });
    const allocatable = { "nvidia.com/gpu": "7" };
    const sized = { ...labels, "nvidia.com/gpu.memory": "9728" };
    const row = rowOf(aNode("node", { labels: sized, allocatable }), text);
    expect(row?.problem).toBeUndefined();
    expect(row).toMatchObject({
      memoryLeftGb: 59.85,
      system: { gpu_vram_gb: 9.5, gpu_count: 7, cpu_cores: 64 },
    });
    expect(rowOf(aNode("node", { labels, allocatable }), text)?.problem).toContain(
      "the memory size of its GPUs",
    );
  },
);

test("a GPU of another vendor does not affect the GPUs that a device plugin offers", () => {
  const amd = { vendor: "amd", name: "MI300X", memoryBytes: 192 * GIB, count: 1, unified: false };
  const nvidia = { ...A100, memoryBytes: 80 * GIB };
  const text = JSON.stringify({ ...REPORT, gpus: [amd, nvidia] });
  const row = rowOf(aNode("node", A100S), text);
  expect(row?.problem).toBeUndefined();
  expect(row).toMatchObject({ memoryLeftGb: 288 });
  const plugin = aNode("node", { allocatable: A100S.allocatable });
  expect(rowOf(plugin, text)).toMatchObject({ memoryLeftGb: 288 });
});

test.each([
  [undefined, "its node report has no node.json"],
  ["{", "its node report is not JSON"],
  ["NaN", "its node report is not JSON"],
  ["[]", "its node report is not usable: node.json:"],
  [{ memory: { totalBytes: -5 } }, "memory.totalBytes"],
  [{ memory: { totalBytes: 1e30 } }, "memory.totalBytes"],
  [
    { memory: { totalBytes: 125 * GIB, availableBytes: 126 * GIB } },
    "memory.availableBytes: more than totalBytes",
  ],
  [{ memory: { totalBytes: 4096 * GIB } }, "says 4096.00 GiB of memory, its Node 128 GiB"],
  [{ memory: { totalBytes: GIB } }, "says 1.00 GiB of memory, its Node 128 GiB"],
  [{ cpu: { cores: 1e6 } }, "cpu.cores"],
  [{ gpus: [{ ...A100, memoryBytes: 2 ** 60 }] }, "gpus.0.memoryBytes"],
  [{ gpus: [{ ...A100, count: 0 }] }, "gpus.0.count"],
  [{ models: Array.from({ length: 5_000 }, () => ({ name: "a", runtime: "b" })) }, "models"],
  ["x".repeat(1_000_000), "longer than"],
])("an invalid report gives no score, with the reason: %j", (change, why) => {
  const text = typeof change === "object" ? JSON.stringify({ ...REPORT, ...change }) : change;
  const row = rowOf(aNode("node"), text);
  expect(row).toMatchObject({ bestScore: 0, modelFitCount: 0, memoryLeftGb: null, stale: false });
  expect(row?.problem).toContain(why);
});

test("a host shows the models of its store, and those of other programs with the program", () => {
  const installed = [{ source: "a/b.gguf", runtime: "lmstudio", sizeBytes: GIB }];
  const status = { models: [{ source: "ollama://qwen3:8b" }], installed };
  const place = machineFromHost(aHost("mac", { status }));
  expect(place.models).toEqual([{ source: "ollama://qwen3:8b" }, ...installed]);
  const lies = [-1, Number.NaN, 2 ** 80].map((sizeBytes) => ({
    source: "x",
    runtime: "lmstudio",
    sizeBytes,
  }));
  const density = createDensity(createFitIndex(catalogRecords().slice(0, 20)));
  density.setPlace("Host", "mac", { ...place, models: lies });
  const row = { name: "x", runtime: "lmstudio" };
  expect(density.sites().map(installedOn)).toEqual([[row, row, row]]);
});

test.each([
  ["as it is", {}, { gpu_vram_gb: 24, gpu_count: 2 }],
  ["with no possible memory", { memoryBytes: -1 }, { gpu_vram_gb: null, gpu_count: 2 }],
  ["with no possible count", { count: Number.NaN }, { gpu_vram_gb: 24, gpu_count: 0 }],
])("a GPU of a Linux host is shown %s", (_, change, shown) => {
  const gpu = {
    vendor: "nvidia",
    name: "NVIDIA L4",
    memoryBytes: 24 * GIB,
    count: 2,
    unified: false,
  } as const;
  const info = { os: "linux", arch: "x64", chip: "Xeon", gpus: [{ ...gpu, ...change }] };
  const { system } = machineFromHost(aHost("pc", { status: { info } }));
  expect(system).toMatchObject({ ...shown, has_gpu: true, gpu_name: "NVIDIA L4", backend: "CUDA" });
});

test("a change of free memory counts once it exceeds 5 % in either direction", () => {
  const total = 100 * GIB;
  const at = (available: number): NodeReport => ({
    ...REPORT,
    memory: { totalBytes: total, availableBytes: available },
  });
  const published = steadyReport(undefined, at(50.1 * GIB));
  expect(published.memory?.availableBytes).toBe(50 * GIB);
  for (const gib of [54.9, 45.1, 50]) expect(steadyReport(published, at(gib * GIB))).toEqual(published);
  expect(steadyReport(published, at(44 * GIB)).memory?.availableBytes).toBe(44 * GIB);
  expect(steadyReport(published, at(total - 1)).memory?.availableBytes).toBe(total);
  expect(steadyReport(published, { ...at(1), memory: { totalBytes: total } }).memory).toEqual({
    totalBytes: total,
  });
});

test.each([
  ["its GPUs", { memoryBytes: 24 * GIB, unified: false }, { accelerator: "cuda", budgetBytes: 43.2 * GIB }],
  [
    "its processor where a GPU shares its memory",
    { unified: true },
    { accelerator: "cpu", budgetBytes: 20 * GIB },
  ],
  [
    "its processor where nothing says how large its GPUs are",
    { unified: false },
    { accelerator: "cpu", budgetBytes: 20 * GIB },
  ],
])("a machine outside a cluster is scored by %s", (_, change, machine) => {
  const { memoryBytes, unified } = { memoryBytes: undefined, ...change };
  const gpu = { vendor: "nvidia", name: "NVIDIA L4", count: 2, unified } as const;
  const place = machineFromReport("pc", {
    memory: { totalBytes: 32 * GIB, availableBytes: 20 * GIB },
    cpu: { cores: 16, arch: "amd64" },
    gpus: [memoryBytes === undefined ? gpu : { ...gpu, memoryBytes }],
    runtimes: [{ name: "ollama" }],
    models: [{ name: "ollama://qwen3:8b", runtime: "ollama" }],
    leftOut: [],
  });
  const budgetBytes = Math.floor(machine.budgetBytes);
  expect(place).toMatchObject({ name: "pc", machine: { at: "known", machine: { ...machine, budgetBytes } } });
  expect(place.models).toEqual([{ source: "ollama://qwen3:8b", runtime: "ollama" }]);
});
