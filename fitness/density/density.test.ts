import { expect, test } from "vitest";
import { cost } from "./cost.ts";
import { createDensity, type Density } from "./density.ts";
import { createFitIndex } from "./fits.ts";
import { A100S, aHost, aNode, catalogRecords } from "./fixtures/fleet.ts";
import { machineFromHost, machineFromNode } from "./place.ts";
import { simulate } from "./simulate.ts";
import { groupSites, nodeRow, rank } from "./views.ts";

const records = catalogRecords();
const GIB = 1024 ** 3;
const now = { wallMs: Date.UTC(2026, 5, 1), monotonicMs: 1_000_000 };
const QWEN_7B = "Qwen/Qwen2.5-7B-Instruct";
const recordOf = (name: string) => {
  const record = records.find((one) => one.name === name);
  if (record === undefined) throw new Error(name);
  return record;
};

function densityOf(...hosts: readonly ReturnType<typeof aHost>[]): Density {
  const density = createDensity(createFitIndex(records));
  for (const host of hosts) density.setPlace("Host", host.metadata.name, machineFromHost(host));
  return density;
}

const rowsOf = (density: Density, ...names: readonly string[]) =>
  rank(groupSites(density, now), names.map(recordOf), { minLevel: "too_tight", sort: "score" }).rows(0, 1000);

const siteOf = (density: Density, name: string) => {
  const site = density.site(name);
  if (site === undefined) throw new Error(name);
  return site;
};

test("machines of one class share their scores, and the class is removed with its last machine", () => {
  const density = densityOf(aHost("a"), aHost("b"), aHost("c", { chip: "Apple M1", memoryGib: 16 }));
  expect(density.fits.classes()).toBe(2);
  const rows = rowsOf(density, QWEN_7B);
  expect(rows.map(({ nodeName }) => nodeName)).toEqual(["a", "b", "c"]);
  expect(rows[0]?.score).toBe(rows[1]?.score);
  expect(rows[2]?.score).toBeLessThan(rows[0]?.score ?? 0);
  density.setPlace("Host", "c", undefined);
  expect(density.fits.classes()).toBe(1);
});

test("MLX files fit only Macs", () => {
  const info = { os: "linux" as const, arch: "x86_64", performanceCores: 16, efficiencyCores: 0 };
  const density = densityOf(aHost("linux", { status: { info } }));
  density.setPlace("Node", "node", machineFromNode(aNode("node")));
  const fitted = rowsOf(density, QWEN_7B).map(({ model }) => model.runtime);
  expect(fitted).toEqual(["llamacpp", "llamacpp"]);
});

test("fits are precomputed in slices until all are known", () => {
  const density = densityOf(aHost("a"), aHost("b", { memoryGib: 16 }));
  let slices = 0;
  while (density.fits.precompute(100)) slices += 1;
  expect(slices).toBe(2 * Math.ceil(records.length / 100));
  expect(density.fits.precompute(100)).toBe(false);
});

test("measurements of a host count for that host only", () => {
  const slow = { chip: "Apple M1", memoryGib: 16 };
  const source = "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf";
  const measured = aHost("a", { ...slow, status: { models: [{ source, tokensPerSecond: 99 }] } });
  const density = densityOf(measured, aHost("b", slow));
  const speeds = new Map(rowsOf(density, QWEN_7B).map(({ nodeName, model }) => [nodeName, model]));
  expect(density.fits.classes()).toBe(1);
  expect(speeds.get("a")).toMatchObject({ best_quant: "Q4_K_M", estimated_tps: 99 });
  expect(speeds.get("b")?.estimated_tps).toBeLessThan(99);
  // A measurement narrows the interval.
  expect(speeds.get("a")).toMatchObject({ estimated_tps_low: 90, estimated_tps_high: 108.9 });
  const { estimated_tps: speed = 0, estimated_tps_high: high = 0 } = speeds.get("b") ?? {};
  expect(high / speed).toBeCloseTo(1.3, 1);
});

test("a family name matches its sizes: Qwen2.5 never uses the score of Qwen2.5-Coder", () => {
  const { match } = createFitIndex(records);
  const found = match("Qwen2.5");
  if (found.at !== "several") throw new Error(found.at);
  expect(found.records.length).toBeGreaterThan(2);
  expect(found.records.filter(({ name }) => /coder|vl|math/i.test(name))).toEqual([]);
});

test.each([".*", "(a+)+$", "[", "\\", "__proto__", "*", " ", "x".repeat(1_000_000)])(
  "%.20s matches no model, and quickly",
  (name) => {
    const started = performance.now();
    expect(createFitIndex(records).match(name).at).toBe("none");
    expect(performance.now() - started).toBeLessThan(20_000);
  },
);

test.each([
  ["negative memory", { totalBytes: -1, gpuBudgetBytes: GIB }],
  ["NaN", { totalBytes: Number.NaN, gpuBudgetBytes: Number.NaN }],
  ["an exabyte", { totalBytes: 2 ** 60, gpuBudgetBytes: 2 ** 59 }],
  ["a budget above its memory", { totalBytes: GIB, gpuBudgetBytes: 2 ** 50 }],
  ["nothing", {}],
])("a host that reports %s is shown with the problem, without a score", (_, memory) => {
  const host = aHost("liar", { status: { memory } });
  const density = densityOf(host, aHost("honest"));
  const row = nodeRow(density, siteOf(density, "liar"), now);
  expect(row).toMatchObject({ modelFitCount: 0, bestScore: 0, memoryLeftGb: null });
  expect(row.problem).toBeTruthy();
  expect(JSON.stringify(row)).not.toMatch(/":(-|null,"gpu_count)|e\+/);
  expect(rowsOf(density, QWEN_7B).map(({ nodeName }) => nodeName)).toEqual(["honest"]);
  expect(simulate(density, { record: recordOf(QWEN_7B) }, now).rankedNodes).toHaveLength(1);
});

test("implausible speeds are ignored", () => {
  const source = "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf";
  const models = [{ source, tokensPerSecond: 1e12 }];
  const [row] = rowsOf(densityOf(aHost("a", { status: { models } })), QWEN_7B);
  expect(row?.model.estimated_tps).toBeLessThan(200);
});

const condition = (type: string, status: "True" | "False", message: string) => ({
  type,
  status,
  message,
  reason: "R",
  lastTransitionTime: "2026-01-01T00:00:00Z",
});

test("a silent host is shown as stale with the reason, and is ranked last regardless of its score", () => {
  const conditions = [condition("Reachable", "False", "no renewal for 40 s")];
  const density = densityOf(
    aHost("big", { memoryGib: 128, status: { conditions } }),
    aHost("small", { memoryGib: 16 }),
  );
  const row = nodeRow(density, siteOf(density, "big"), now);
  expect(row).toMatchObject({ stale: true, problem: "no renewal for 40 s" });
  expect(rowsOf(density, QWEN_7B)).toMatchObject([
    { nodeName: "small", stale: false },
    { nodeName: "big", stale: true },
  ]);
  expect(simulate(density, { record: recordOf("meta-llama/Llama-3.3-70B-Instruct") }, now)).toMatchObject({
    canFitAnywhere: false,
  });
});

test("a host that no agent has joined is in no list or count, and is explained when requested by name", () => {
  const awaited = {
    ...condition("Reachable", "False", ""),
    status: "Unknown" as const,
    reason: "HostNeverSeen",
  };
  const density = densityOf(
    aHost("mac-1"),
    { ...aHost("later"), status: { conditions: [awaited] } },
    { ...aHost("new"), status: undefined },
  );
  expect(density.sites().map(({ place }) => place.name)).toEqual(["mac-1"]);
  for (const name of ["later", "new"])
    expect(nodeRow(density, siteOf(density, name), now).problem).toBe("no agent has joined as this host yet");
});

test("staleness is measured by the server's clock, and not while no host reports", () => {
  const density = densityOf(aHost("ahead"), aHost("behind"));
  density.leaseRenewed("ahead", now.wallMs + 86_400_000, now);
  density.leaseRenewed("behind", now.wallMs - 86_400_000, now);
  const later = { wallMs: now.wallMs + 91_000, monotonicMs: now.monotonicMs + 91_000 };
  for (const name of ["ahead", "behind"]) expect(density.isStale(siteOf(density, name), now)).toBe(false);
  expect(nodeRow(density, siteOf(density, "ahead"), now).lastSeen).toBe("2026-06-01T00:00:00Z");
  expect(nodeRow(density, siteOf(density, "behind"), now).lastSeen).toBe("2026-05-31T00:00:00Z");
  density.leaseRenewed("ahead", now.wallMs + 86_400_000, {
    ...later,
    monotonicMs: later.monotonicMs - 5_000,
  });
  expect(density.isStale(siteOf(density, "ahead"), later)).toBe(false);
  expect(density.isStale(siteOf(density, "behind"), later)).toBe(true);
  density.restartLeaseTimeouts(later.monotonicMs);
  expect(density.isStale(siteOf(density, "behind"), later)).toBe(false);
});

test("a node whose clock is ahead is shown as last seen now, and is stale only when it is not ready", () => {
  const { status, ...node } = aNode("ahead");
  const ready = { type: "Ready", status: "True", lastHeartbeatTime: "2099-01-01T00:00:00Z" } as const;
  const density = createDensity(createFitIndex(records));
  density.setPlace("Node", "ahead", machineFromNode({ ...node, status: { ...status, conditions: [ready] } }));
  const row = nodeRow(density, siteOf(density, "ahead"), now);
  expect(row).toMatchObject({ lastSeen: "2026-06-01T00:00:00Z", stale: false });
});

test("cluster nodes are scored by the memory of their GPUs, or by their own memory without a GPU", () => {
  const density = createDensity(createFitIndex(records));
  for (const node of [
    aNode("gpu", A100S),
    aNode("cpu", { memory: "64Gi" }),
    aNode("dark", { allocatable: { "nvidia.com/gpu": "1" } }),
    aNode("away", { isReady: false }),
  ])
    density.setPlace("Node", node.metadata.name, machineFromNode(node));
  const rows = Object.fromEntries(
    density.sites().map((site) => [site.place.name, nodeRow(density, site, now)]),
  );
  expect(rows.gpu).toMatchObject({
    memoryBudgetGb: 288,
    lastSeen: "2026-01-02T03:04:05Z",
    system: {
      has_gpu: true,
      gpu_vram_gb: 80,
      gpu_count: 4,
      backend: "CUDA",
      gpu_name: "NVIDIA A100 SXM4 80GB",
    },
    memoryLeftGb: 288,
  });
  expect(rows.cpu).toMatchObject({
    system: { has_gpu: false, gpus: [], backend: "CPU (x86)" },
    memoryLeftGb: 64,
  });
  expect(rows.dark).toMatchObject({ problem: "no label has the memory size of its GPUs", bestScore: 0 });
  expect(rows.away).toMatchObject({ stale: true, problem: "kubelet says so" });
  const speed = (name: string) =>
    rowsOf(density, QWEN_7B).find(({ nodeName }) => nodeName === name)?.model.estimated_tps ?? 0;
  expect(speed("gpu")).toBeGreaterThan(5 * speed("cpu"));
});

const held = (gib: number, more: object = {}) => ({
  namespace: "team",
  service: "chat",
  phase: "Ready",
  bytes: gib * GIB,
  gpus: 0,
  ...more,
});

test("a simulation accounts for placed models and the requested quantization and context", () => {
  const density = densityOf(aHost("mac", { memoryGib: 32, budgetGib: 24 }));
  const record = recordOf(QWEN_7B);
  const [free] = simulate(density, { record }, now).rankedNodes;
  expect(free).toMatchObject({ availableMemoryGb: 24, fitLevel: "perfect" });
  density.setHeld("team/chat-0", { kind: "Host", name: "mac" }, held(14));
  const [beside] = simulate(density, { record }, now).rankedNodes;
  expect(beside?.availableMemoryGb).toBe(10);
  expect(beside?.requiredMemoryGb).toBeLessThanOrEqual(10);
  const [long] = simulate(density, { record, contextSize: 32_768 }, now).rankedNodes;
  expect(long?.requiredMemoryGb).not.toBe(beside?.requiredMemoryGb);
  density.setHeld("team/chat-1", { kind: "Host", name: "mac" }, held(10));
  const without = (name: string) => simulate(density, { record, exclude: [name] }, now).rankedNodes[0];
  expect(without("team/chat")).toEqual(free);
  expect(without("other/chat")).toMatchObject({ availableMemoryGb: 0 });
  expect(simulate(density, { record }, now)).toMatchObject({
    rankedNodes: [{ fitLevel: "too_tight", currentScore: 0, remainingMemoryGb: 0 }],
    canFitAnywhere: false,
  });
  density.setHeld("team/chat-1", undefined);
  expect(simulate(density, { record, exclude: [free?.nodeName ?? ""] }, now)).toEqual({
    rankedNodes: [],
    canFitAnywhere: false,
  });
  expect(simulate(density, { record: undefined, memoryGb: 9 }, now)).toMatchObject({
    rankedNodes: [{ requiredMemoryGb: 9, remainingMemoryGb: 1, utilizationPct: 90, fitLevel: "marginal" }],
    canFitAnywhere: true,
  });
});

test("a cordoned host does not count as fitting", () => {
  const density = densityOf(aHost("mac", { spec: { unschedulable: true } }));
  const simulated = simulate(density, { record: recordOf(QWEN_7B) }, now);
  expect(simulated).toMatchObject({ canFitAnywhere: false, rankedNodes: [{ schedulable: false }] });
  expect(nodeRow(density, siteOf(density, "mac"), now)).toMatchObject({
    memoryLeftGb: 0,
    schedulable: false,
  });
  expect(rowsOf(density, QWEN_7B)).toMatchObject([{ fitsNow: false, schedulable: false }]);
});

test("pods use whole GPUs of a node, and memory on nodes without GPUs", () => {
  const density = createDensity(createFitIndex(records));
  density.setHeld("pod team/x", { kind: "Node", name: "gpu" }, held(8, { gpus: 3 }));
  for (const node of [aNode("gpu", A100S), aNode("cpu", { memory: "64Gi" })])
    density.setPlace("Node", node.metadata.name, machineFromNode(node));
  density.setHeld("pod team/y", { kind: "Node", name: "cpu" }, held(16));
  expect(nodeRow(density, siteOf(density, "gpu"), now).memoryLeftGb).toBe(72);
  expect(nodeRow(density, siteOf(density, "cpu"), now)).toMatchObject({
    memoryLeftGb: 48,
    system: { available_ram_gb: 48 },
  });
  density.setHeld("pod team/x", undefined);
  expect(nodeRow(density, siteOf(density, "gpu"), now).memoryLeftGb).toBe(288);
});

test("cost lists the resources allocated to replicas, by service and node, and by namespace", () => {
  const density = densityOf(aHost("mac"));
  density.setPlace("Node", "gpu", machineFromNode(aNode("gpu", A100S)));
  density.setModel("team/qwen", "hf://bartowski/Qwen2.5-7B-Instruct-GGUF/Qwen2.5-7B-Instruct-Q4_K_M.gguf");
  density.setService("team/chat", "qwen");
  density.setHeld("team/chat-0", { kind: "Host", name: "mac" }, held(6));
  density.setHeld("team/chat-1", { kind: "Host", name: "mac" }, held(6, { phase: "Starting" }));
  density.setHeld(
    "pod other/big",
    { kind: "Node", name: "gpu" },
    held(0, { namespace: "other", service: "big", gpus: 2 }),
  );
  const ramGib = siteOf(density, "gpu").place.system.total_ram_gb;
  density.setHeld(
    "pod other/small",
    { kind: "Node", name: "gpu" },
    held(ramGib / 4, { namespace: "other", service: "small" }),
  );
  expect(cost(density)).toMatchObject({
    models: [
      {
        name: "big",
        namespace: "other",
        placedNode: "gpu",
        gpu: 2,
        memoryRequiredGb: 144,
        utilizationPct: 50,
        fitnessScore: 0,
      },
      { name: "small", gpu: 0, memoryRequiredGb: ramGib / 4, utilizationPct: 25 },
      {
        name: "qwen",
        namespace: "team",
        placedNode: "mac",
        phase: "Starting",
        gpu: 0,
        replicas: 2,
        memoryRequiredGb: 12,
        utilizationPct: 25,
      },
    ],
    namespaces: [
      { namespace: "other", modelCount: 2, totalGpu: 2, totalMemoryGb: 144 + ramGib / 4 },
      { namespace: "team", modelCount: 1, totalGpu: 0, totalMemoryGb: 12 },
    ],
  });
  expect(cost(density, "team").models[0]?.fitnessScore).toBeGreaterThan(10);
  density.setHeld("team/chat-0", undefined);
  expect(cost(density, "team").models[0]?.memoryRequiredGb).toBe(6);
});

test("pages of a ranking join without gaps", () => {
  const density = densityOf(
    ...["a", "b", "c", "d"].map((name) => aHost(name)),
    aHost("e", { memoryGib: 16 }),
  );
  const { rows, total } = rank(
    groupSites(density, now),
    [recordOf(QWEN_7B), recordOf("meta-llama/Llama-3.1-8B-Instruct")],
    { minLevel: "marginal", sort: "tps" },
  );
  expect(total).toBe(10);
  const all = rows(0, 100);
  const joined = [0, 3, 6, 9].flatMap((offset) => rows(offset, 3));
  expect(joined).toEqual(all);
  const speeds = all.map(({ model }) => model.estimated_tps);
  expect(speeds).toEqual([...speeds].sort((a, b) => b - a));
});

test("computing the fits of a host that has measured every model takes time proportional to their number", () => {
  const density = densityOf();
  const sources = records.map(({ name }) => `hf://${name}`);
  const placeWith = (count: number) => {
    const models = sources.slice(0, count).map((source) => ({ source, tokensPerSecond: 10 }));
    const place = machineFromHost(aHost("a", { status: { models } }));
    const before = process.cpuUsage();
    density.setPlace("Host", "a", place);
    const { user, system } = process.cpuUsage(before);
    return user + system;
  };
  const few = Math.floor(sources.length / 8);
  const least = (count: number) => Math.min(...Array.from({ length: 7 }, () => placeWith(count)));
  // Looking up all names for each model would take 64 times as long for 8 times as many models.
  expect(least(few * 8)).toBeLessThan(30 * Math.max(least(few), 200));
});
