import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { hostSchema } from "../../../src/api/host.ts";
import { type CatalogRecord, readCatalog } from "../../catalog/record.ts";
import { bare, mac, pc } from "./fixtures/machines.ts";
import { factsOfHost, factsOfNode } from "./host-facts.ts";
import { createLlmfitRest, type RestFacts, type RestRequest } from "./rest.ts";

/** Plan figures printed by llmfit 1.1.10; other values follow its documented rules. */
const now = Date.UTC(2026, 6, 1);
const { records } = readCatalog(readFileSync("catalog/models.jsonl", "utf8"));
const rest = createLlmfitRest(records);
const GIB = 1024 ** 3;

interface Row {
  readonly [field: string]: unknown;
  readonly name: string;
  readonly score: number;
}
interface Envelope {
  readonly total_models: number;
  readonly returned_models: number;
  readonly filters: Readonly<Record<string, unknown>>;
  readonly system: Readonly<Record<string, unknown>>;
  readonly models: readonly Row[];
}

function ask(url: string, facts: RestFacts = mac, more: Partial<RestRequest> = {}) {
  const request = { method: "GET", url, isLocal: true, contentType: "application/json", body: "", ...more };
  return rest(request, facts, now);
}

function list(query: string, facts: RestFacts = mac): Envelope {
  const { status, body } = ask(`/api/v1/models${query}`, facts);
  expect(status, JSON.stringify(body)).toBe(200);
  return body as unknown as Envelope;
}

interface Plan {
  readonly [field: string]: unknown;
  readonly minimum: { readonly vram_gb: number };
  readonly current: { readonly estimated_tps: number };
  readonly upgrade_deltas: readonly { readonly add_gb: number; readonly target_fit: string }[];
  readonly run_paths: readonly object[];
}
const plan = (body: unknown, facts: RestFacts = mac, more: Partial<RestRequest> = {}) =>
  ask("/api/v1/plan", facts, { method: "POST", body: JSON.stringify(body), ...more });

test("health, system, runtimes and installed have the same shapes as in llmfit", () => {
  const node = { name: "mini-1", os: "macos" };
  expect(ask("/health")).toEqual({ status: 200, body: { status: "ok", node } });
  expect(ask("/api/v1/system").body).toEqual({
    node,
    system: {
      total_ram_gb: 24,
      available_ram_gb: 15,
      cpu_cores: 12,
      cpu_name: "Apple M4 Pro",
      has_gpu: true,
      gpu_vram_gb: 18,
      gpu_available_gb: 18,
      gpu_name: "Apple M4 Pro",
      gpu_count: 1,
      unified_memory: true,
      backend: "Metal",
      gpus: [
        {
          name: "Apple M4 Pro",
          vram_gb: 18,
          backend: "Metal",
          count: 1,
          unified_memory: true,
          memory_bandwidth_gbps: 273,
        },
      ],
    },
  });
  expect(ask("/api/v1/runtimes").body).toEqual({
    runtimes: [
      { name: "ollama", installed: false },
      { name: "mlx", installed: true },
      { name: "llamacpp", installed: true },
      { name: "docker_model_runner", installed: false },
      { name: "lmstudio", installed: false },
      { name: "vllm", installed: false },
    ],
    warnings: [],
  });
  expect(ask("/api/v1/installed").body).toEqual({
    models: [
      { name: "qwen2.5-7b-instruct-q4_k_m", runtime: "llamacpp" },
      { name: "qwen3:8b", runtime: "ollama" },
    ],
    warnings: [],
  });
});

test("a row has all fields of llmfit, including installed and measured data", () => {
  const { models, filters } = list("/Qwen%2FQwen2.5-7B-Instruct");
  const row = models.find(({ name }) => name === "Qwen/Qwen2.5-7B-Instruct");
  expect(Object.keys(row ?? {}).sort()).toEqual(
    (
      "name provider parameter_count params_b context_length usable_context effective_context_length use_case category " +
      "release_date is_moe fit_level fit_label run_mode run_mode_label score score_components estimated_tps runtime " +
      "runtime_label best_quant memory_required_gb memory_available_gb moe_offloaded_gb total_memory_gb utilization_pct " +
      "notes gguf_sources capabilities capability_ids license supports_tp installed disk_size_gb ollama_name " +
      "estimate_basis verify_command measured_tps"
    )
      .split(" ")
      .sort(),
  );
  expect(row).toMatchObject({
    provider: "Qwen",
    fit_label: "Perfect",
    run_mode_label: "GPU",
    runtime_label: "MLX",
    installed: true,
    measured_tps: 47,
    ollama_name: null,
    verify_command: null,
    supports_tp: [1, 2, 4],
    moe_offloaded_gb: null,
    total_memory_gb: row?.memory_required_gb,
    estimate_basis: { method: "gpu_bandwidth_roofline", gpu_bandwidth_gbps: 273, assumed_context: 8192 },
  });
  expect(filters).toMatchObject({ search: "Qwen/Qwen2.5-7B-Instruct", limit: null, top_only: false });
  // Another model with a similar name does not count as installed.
  const coders = list("?search=Qwen2.5-Coder-7B").models;
  expect(coders.map(({ installed }) => installed)).toEqual(coders.map(() => false));
});

test("a mixture of experts that is larger than the GPU keeps its inactive experts in memory", () => {
  const { models } = list("?search=Qwen3-Next&include_too_tight=true", pc);
  const row = models.find(({ run_mode }) => run_mode === "moe_offload");
  expect(row).toMatchObject({ run_mode_label: "MoE", verify_command: null });
  const { memory_required_gb, moe_offloaded_gb, total_memory_gb } = row as Record<string, number> & Row;
  expect(moe_offloaded_gb).toBeGreaterThan(20);
  expect(total_memory_gb).toBeCloseTo((memory_required_gb ?? 0) + (moe_offloaded_gb ?? 0), 1);
});

test("each filter is applied", () => {
  const all = list("");
  expect(all.total_models).toBeGreaterThan(50);
  expect(all.returned_models).toBe(all.total_models);
  const every = (query: string, check: (row: Row) => boolean, facts: RestFacts = mac) => {
    const { models, total_models } = list(query, facts);
    expect(total_models, query).toBeGreaterThan(0);
    expect(models.filter((row) => !check(row)).map(({ name }) => name)).toEqual([]);
    return total_models;
  };
  every("?perfect=true", ({ fit_level }) => fit_level === "perfect");
  every("?min_fit=GOOD", ({ fit_level }) => fit_level === "good" || fit_level === "perfect");
  every("?runtime=mlx", ({ runtime }) => runtime === "mlx");
  every("?runtime=llama.cpp", ({ runtime }) => runtime === "llamacpp", bare);
  every("?use_case=code", ({ category }) => category === "Coding");
  every("?use_case=vision", ({ category }) => category === "Multimodal");
  every("?provider=qwen", ({ provider }) => /qwen/i.test(String(provider)));
  every("?search=mistral", (row) =>
    /mistral/i.test(`${row.name} ${String(row.provider)} ${String(row.use_case)}`),
  );
  every("?license=apache-2.0,MIT", ({ license }) => /^(apache-2.0|mit)$/i.test(String(license)));
  every("?max_context=2048", ({ effective_context_length }) => Number(effective_context_length) <= 2048);
  every(
    "?force_runtime=llamacpp",
    ({ runtime, best_quant }) => runtime === "llamacpp" && /^[QFB]/.test(String(best_quant)),
  );
  every("?vram_gb=8", ({ memory_available_gb }) => memory_available_gb === 8);
  every("?ram=3.2e1", ({ memory_available_gb }) => memory_available_gb === 32);
  every("?ram_gb=10&cpu_cores=2", ({ memory_available_gb }) => memory_available_gb === 9, bare);
  expect(list("?provider=no-such")).toMatchObject({ total_models: 0, returned_models: 0, models: [] });
});

test("models that are too tight are listed last and only on request, and never in the top list", () => {
  const tight = ({ fit_level }: Row) => fit_level === "too_tight";
  expect(list("").models.some(tight)).toBe(false);
  for (const query of ["?min_fit=too_tight", "?min_fit=tight", "?include_too_tight=true"]) {
    const { models } = list(query);
    const first = models.findIndex(tight);
    expect(first, query).toBeGreaterThan(0);
    expect(models.slice(first).every(tight), query).toBe(true);
  }
  expect(list("?min_fit=too_tight&include_too_tight=false").models.some(tight)).toBe(false);
  expect(list("/top?min_fit=too_tight&limit=1000").models.some(tight)).toBe(false);
});

test("the top list has five rows, a name search twenty, and a limit is applied after the filters", () => {
  const top = list("/top");
  expect(top).toMatchObject({ returned_models: 5, filters: { top_only: true, limit: null } });
  expect(top.total_models).toBeGreaterThan(50);
  expect(list("/top?n=2").returned_models).toBe(2);
  expect(list("/Instruct").returned_models).toBe(20);
  expect(list("?limit=3")).toMatchObject({ returned_models: 3, total_models: list("").total_models });
  expect(list("?limit=0")).toMatchObject({ returned_models: 0, models: [] });
});

test.each([
  ["score", ({ score }: Row) => -score],
  ["throughput", ({ estimated_tps }: Row) => -Number(estimated_tps)],
  ["parameters", ({ params_b }: Row) => -Number(params_b)],
  ["mem_pct", ({ utilization_pct }: Row) => -Number(utilization_pct)],
  ["context", ({ usable_context }: Row) => -Number(usable_context)],
  ["released", ({ release_date }: Row) => -(Date.parse(String(release_date)) || Number.NEGATIVE_INFINITY)],
] as const)("sorted by %s, and by name where that is equal", (sort, key) => {
  const { models } = list(`?sort=${sort}`);
  const keys = models.map(key);
  expect(keys).toEqual(keys.toSorted((a, b) => a - b));
  expect(list(`?sort=${sort}`).models).toEqual(models);
});

test.each([
  ["min_fit=great", "invalid min_fit value: use perfect|good|marginal|too_tight"],
  ["runtime=tgi", "invalid runtime value: use any|mlx|llamacpp|vllm"],
  ["force_runtime=any", "invalid force_runtime value: use mlx|llamacpp|vllm"],
  ["use_case=__proto__", "invalid use_case value: use general|coding|reasoning|chat|multimodal|embedding"],
  ["sort=.*", "invalid sort value: use score|tps|params|mem|ctx|date|use_case"],
  ["ram_gb=0", "invalid ram_gb value: expected a positive number"],
  ["ram_gb=1e400", "invalid ram_gb value: expected a positive number"],
  ["ram_gb=NaN", "invalid ram_gb value: expected a positive number"],
  ["memory=-1", "invalid vram_gb value: expected a non-negative number"],
  ["cpu_cores=0", "invalid cpu_cores value: expected a positive integer"],
])("%s is refused in JSON", (query, error) => {
  expect(ask(`/api/v1/models?${query}`)).toEqual({ status: 400, body: { error } });
});

test.each([
  "limit=-1",
  "limit=1e3",
  "limit=99999999999999999999",
  "perfect=yes",
  "include_too_tight=1",
  "ram_gb=12GB",
  "cpu_cores=2.5",
  "max_context=lots",
  "search=a&search=b",
])("%s is refused as text", (query) => {
  const { status, body } = ask(`/api/v1/models?${query}`);
  expect(status).toBe(400);
  expect(body).toMatch(/^Failed to deserialize query string: \w+: /);
});

test("a search term is plain text: patterns, a megabyte and unknown names match nothing", () => {
  for (const text of [".*", "(a+)+$", "[", "\\", "%", "x".repeat(1 << 20), "no-such-model"]) {
    expect(list(`?search=${encodeURIComponent(text)}`).total_models).toBe(0);
    expect(list(`/${encodeURIComponent(text)}`).total_models).toBe(0);
  }
  expect(ask("/api/v1/models/%ff")).toMatchObject({
    status: 400,
    body: expect.stringMatching(/^Invalid URL/),
  });
});

test("other paths are 404, other methods 405, both without a body", () => {
  for (const url of [
    "/",
    "/api/v1",
    "/api/v1/download",
    "/api/v1/models/a/b",
    "/api/v1/models/",
    "/toString",
  ])
    expect(ask(url)).toEqual({ status: 404, body: "" });
  expect(ask("/health", mac, { method: "POST" })).toEqual({ status: 405, body: "" });
  expect(ask("/api/v1/plan")).toEqual({ status: 405, body: "" });
});

const shapeless = (name: string): readonly CatalogRecord[] =>
  records.map((record) =>
    record.name === name ? { ...record, num_hidden_layers: undefined, head_dim: undefined } : record,
  );

test("Qwen2.5-7B on an M4 Pro with 24 GB has the same plan as in llmfit", () => {
  const body = { model: "qwen/qwen2.5-7b-instruct", context: 8192, quant: "q4_k_m", vram_gb: 24 };
  const { status, body: found } = plan(body);
  expect(status).toBe(200);
  const { minimum, current, run_paths, kv_alternatives, ...others } = found as unknown as Plan;
  expect(minimum.vram_gb.toFixed(4)).toBe("5.3546");
  expect(current).toMatchObject({ fit_level: "Perfect", run_mode: "Gpu" });
  expect(current.estimated_tps.toFixed(3)).toBe("39.432");
  expect(run_paths).toMatchObject([
    { path: "gpu", feasible: true, minimum: { ram_gb: 8, cpu_cores: 4 }, recommended: { cpu_cores: 8 } },
    { path: "cpu_offload", feasible: false, minimum: null },
    { path: "cpu_only", feasible: true, minimum: { vram_gb: null } },
  ]);
  expect(kv_alternatives).toMatchObject([
    { kv_quant: "fp16", savings_fraction: 0, supported: true },
    { kv_quant: "fp8", savings_fraction: 0.5, supported: true },
    { kv_quant: "q8_0", savings_fraction: 0.5, supported: true },
    { kv_quant: "q4_0", savings_fraction: 0.75, supported: true },
    { kv_quant: "tq", supported: false },
  ]);
  expect(others).toMatchObject({
    model_name: "Qwen/Qwen2.5-7B-Instruct",
    provider: "Qwen",
    context: 8192,
    quantization: "Q4_K_M",
    kv_quant: "fp16",
    target_tps: null,
  });
});

test("the plan of Llama-70B on an RTX 4090 runs from system memory, 22 GB short of the GPU", () => {
  const name = "meta-llama/Llama-3.1-70B-Instruct";
  const blind = createLlmfitRest(shapeless(name));
  const body = JSON.stringify({ model: name, context: 8192, quant: "Q4_K_M" });
  const post = { method: "POST", url: "/api/v1/plan", isLocal: true, contentType: "application/json", body };
  const found = blind(post, pc, now).body as unknown as Plan;
  expect(found.current).toMatchObject({ fit_level: "Good", run_mode: "CpuOffload" });
  expect(found.current.estimated_tps.toFixed(3)).toBe("7.858");
  expect(found.upgrade_deltas.map(({ add_gb, target_fit }) => [add_gb.toFixed(1), target_fit])).toEqual([
    ["22.0", "Good"],
    ["41.7", "Perfect"],
  ]);
});

test("a speed that no number of cores reaches is not feasible on that path", () => {
  const fitRequest = { model: "Qwen/Qwen2.5-7B-Instruct", context: 4096, target_tps: 40 };
  const { run_paths, upgrade_deltas } = plan(fitRequest, bare).body as unknown as Plan;
  expect(run_paths).toMatchObject([{ feasible: false }, { feasible: false }, { feasible: false }]);
  expect(upgrade_deltas).toHaveLength(2);
  const slow = plan({ ...fitRequest, target_tps: 3.4 }, bare).body as unknown as Plan;
  expect(slow.run_paths[2]).toMatchObject({ path: "cpu_only", feasible: true, minimum: { cpu_cores: 8 } });
});

test.each([
  [{ model: "Qwen2.5", context: 4096 }, "model 'Qwen2.5' not found: use the full name"],
  [{ model: "Qwen/Qwen3-8B", context: 0 }, "invalid context value: expected a positive integer"],
  [
    { model: "Qwen/Qwen3-8B", context: 1, target_tps: -1 },
    "invalid target_tps value: expected a positive number",
  ],
  [{ model: "Qwen/Qwen3-8B", context: 1, ram_gb: -1 }, "invalid ram_gb value: expected a positive number"],
  [
    { model: "Qwen/Qwen3-8B", context: 1, kv_quant: "__proto__" },
    "invalid kv_quant value: use fp16|fp8|q8_0|q4_0|tq",
  ],
  [{ model: "Qwen/Qwen3-8B", context: 1, kv_quant: "tq" }, "invalid kv_quant value: tq needs a CUDA GPU"],
])("the plan %j is refused in JSON", (body, error) => {
  expect(plan(body)).toEqual({ status: 400, body: { error } });
});

test("a plan requires a client on this machine, and JSON with valid types", () => {
  const good = { model: "Qwen/Qwen3-8B", context: 4096 };
  expect(plan(good, mac, { isLocal: false })).toEqual({
    status: 403,
    body: { error: "Plan restricted to localhost" },
  });
  expect(plan(good, mac, { contentType: "application/x-www-form-urlencoded" }).status).toBe(415);
  expect(plan(good, mac, { body: "{" }).status).toBe(400);
  for (const wrong of [[], null, "text", {}, { ...good, context: "4096" }, { ...good, context: 1.5 }])
    expect(plan(wrong), JSON.stringify(wrong)).toMatchObject({
      status: 422,
      body: expect.stringMatching(/^Failed to deserialize the JSON body/),
    });
  expect(plan({ ...good, quant: "Q9_Z" })).toMatchObject({
    status: 400,
    body: { error: expect.stringMatching(/^invalid quant value: use F32\|/) },
  });
});

test("a Host without a report has a system of zeros, and no model fits it", () => {
  const facts = factsOfHost(hostSchema.parse({ metadata: { name: "new" } }));
  expect(ask("/api/v1/system", facts).body).toMatchObject({ system: { total_ram_gb: 0, gpu_vram_gb: null } });
  expect(list("", facts).total_models).toBe(0);
});

test("a node's report provides its system, runtimes and models", () => {
  const facts = factsOfNode("node-1", {
    memory: { totalBytes: 64 * GIB, availableBytes: 32 * GIB },
    cpu: { name: "AMD EPYC", cores: 16, arch: "amd64" },
    gpus: [{ vendor: "nvidia", name: "NVIDIA L4", memoryBytes: 24 * GIB, count: 2, unified: false }],
    runtimes: [{ name: "ollama", version: "0.12.0" }],
    models: [{ name: "qwen3:8b", runtime: "ollama" }],
    leftOut: [],
  });
  expect(ask("/api/v1/system", facts).body).toMatchObject({
    node: { name: "node-1", os: "linux" },
    system: { available_ram_gb: 32, gpu_vram_gb: 24, gpu_count: 2, backend: "CUDA" },
  });
  expect(ask("/api/v1/installed", facts).body).toMatchObject({
    models: [{ name: "qwen3:8b", runtime: "ollama" }],
  });
  expect(list("/Qwen%2FQwen3-8B", facts).models).toMatchObject([{ installed: true }]);
  // Both GPUs are counted if the model runs on the GPU.
  expect(list("?limit=1&min_fit=perfect", facts).models).toMatchObject([{ memory_available_gb: 48 }]);
});
