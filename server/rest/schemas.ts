/** Input and output schemas of the density API. The OpenAPI document is generated from them, and tests validate responses with them. */
import { z } from "zod";
import { FIT_LEVELS } from "../../fitness/scoring/score.ts";

const fitLevel = z.enum(FIT_LEVELS);
const score = z.number().min(0).max(100).describe("0 to 100, one decimal.");
const gb = (what: string) => z.number().min(0).describe(`${what}, in GiB, two decimals.`);
const percent = z.number().min(0).describe("Percent, one decimal.");
const nodeName = z.string().describe("Name of the Host or Node.");
const kind = z.enum(["Host", "Node"]);
const stale = z.boolean().describe("It is silent: its figures are old.");
const schedulable = z.boolean().describe("False: cordoned or drained.");

const systemSchema = z
  .strictObject({
    total_ram_gb: gb("Installed memory"),
    available_ram_gb: gb("Memory that programs could get"),
    cpu_cores: z.int().min(0),
    cpu_name: z.string(),
    has_gpu: z.boolean(),
    gpu_vram_gb: gb("Memory of one GPU; of a Mac, what engines may claim").nullable(),
    gpu_name: z.string().nullable(),
    gpu_count: z.int().min(0),
    unified_memory: z.boolean(),
    backend: z.string().describe("Metal, CUDA, ROCm, SYCL, CPU (ARM) or CPU (x86)."),
    gpus: z.array(
      z.strictObject({
        name: z.string(),
        vram_gb: z.number().min(0).nullable(),
        backend: z.string(),
        count: z.int().min(0),
        unified_memory: z.boolean(),
      }),
    ),
  })
  .describe("llmfit's system object.");

const runtimeSchema = z.strictObject({
  name: z.string(),
  installed: z.boolean(),
  version: z.string().optional(),
});
const installedSchema = z.strictObject({
  name: z.string().describe("Source of the model."),
  runtime: z.string().describe("llamacpp, mlx or ollama."),
  sizeGb: z.number().min(0).optional(),
});

const fitSchema = z.strictObject({
  name: z.string().describe("Name in the catalog."),
  score,
  fit_level: fitLevel,
  runtime: z.enum(["llamacpp", "mlx"]),
  best_quant: z.string(),
  estimated_tps: z.number().min(0).describe("Tokens per second, one decimal."),
  memory_required_gb: gb("The claim"),
  memory_available_gb: gb("What engines may claim on the node together"),
  utilization_pct: percent,
  category: z.enum(["General", "Coding", "Reasoning", "Chat", "Multimodal", "Embedding"]),
});

const nodeSchema = z.strictObject({
  nodeName,
  lastSeen: z.string().describe("When it was last heard of, in UTC; 0001-01-01T00:00:00Z for never."),
  stale,
  system: systemSchema,
  modelFitCount: z.int().min(0).describe("Models of the catalog that fit."),
  runtimes: z.array(runtimeSchema),
  installedModels: z.array(installedSchema),
  kind,
  schedulable,
  bestScore: score,
  memoryLeftGb: gb("What new engines may claim; null where the budget is not known").nullable(),
  problem: z.string().optional().describe("Why it is stale or cannot be scored."),
});

const page = {
  total: z.int().min(0).describe("Of all pages."),
  nextOffset: z.int().min(1).optional().describe("Where the next page begins; absent on the last."),
};

export const nodesResponse = z.strictObject({ nodes: z.array(nodeSchema), ...page });

export const nodeResponse = z.strictObject({
  NodeName: nodeName,
  LastSeen: z.string(),
  System: systemSchema,
  ModelFits: z.array(fitSchema).describe("The best first."),
  Runtimes: z.array(runtimeSchema),
  InstalledModels: z.array(installedSchema),
  Stale: stale,
  Kind: kind,
  Schedulable: schedulable,
  MemoryLeftGb: z.number().min(0).nullable(),
  Problem: z.string().optional(),
});

export const runtimesResponse = z.strictObject({
  nodes: z.array(z.strictObject({ nodeName, kind, runtimes: z.array(runtimeSchema) })),
  ...page,
});

export const installedResponse = z.strictObject({
  nodes: z.array(z.strictObject({ nodeName, kind, models: z.array(installedSchema) })),
  ...page,
});

export const queryResponse = z.strictObject({
  query: z.string(),
  rankedNodes: z.array(
    z.strictObject({
      nodeName,
      kind,
      score,
      fitLevel,
      model: fitSchema,
      stale,
      schedulable,
      fitsNow: z.boolean().describe("It fits beside what is placed there already."),
    }),
  ),
  models: z.array(z.string()).describe("Models of the catalog that the name means."),
  nearest: z.array(z.string()).optional().describe("Where it means none: names that have words in common."),
  ...page,
});

export const catalogResponse = z.strictObject({
  models: z.array(
    z.strictObject({
      modelName: z.string(),
      bestScore: score,
      bestNode: nodeName,
      fitLevel: fitLevel.describe("On the best node."),
      nodes: z.array(z.strictObject({ nodeName, score, fitLevel, stale })).describe("The best first."),
    }),
  ),
  ...page,
});

export const simulateResponse = z.strictObject({
  model: z.string(),
  rankedNodes: z.array(
    z.strictObject({
      nodeName,
      currentScore: score,
      fitLevel,
      availableMemoryGb: gb("What is left beside what is placed there"),
      requiredMemoryGb: gb("The claim, or memoryGb"),
      remainingMemoryGb: gb("What would be left after it"),
      utilizationPct: percent,
      quantization: z.string(),
      estimatedTps: z.number().min(0),
      stale,
      schedulable,
    }),
  ),
  canFitAnywhere: z.boolean().describe("On a node that is neither stale nor cordoned."),
  nearest: z.array(z.string()).optional(),
  ...page,
});

export const costResponse = z.strictObject({
  models: z.array(
    z.strictObject({
      name: z.string().describe("Name of the Model."),
      namespace: z.string(),
      placedNode: nodeName,
      phase: z.string().describe("Ready, or the first phase that is not."),
      gpu: z.int().min(0).describe("Whole GPUs that its pods have."),
      memoryRequiredGb: gb("What its replicas hold there"),
      utilizationPct: percent,
      fitnessScore: score.describe("0 where the catalog does not have the model."),
      service: z.string(),
      replicas: z.int().min(1),
    }),
  ),
  namespaces: z.array(
    z.strictObject({
      namespace: z.string(),
      modelCount: z.int().min(0),
      totalGpu: z.int().min(0),
      totalMemoryGb: z.number().min(0),
    }),
  ),
  ...page,
});

const MAX_ROWS = 10_000;
const name = z.string().min(1).max(512);
const pages = {
  limit: z.coerce.number().int().min(1).max(MAX_ROWS).optional().describe("At most so many on this page."),
  offset: z.coerce.number().int().min(0).max(1e9).default(0).describe("How many to leave out."),
};
const paging = {
  ...pages,
  watch: z
    .enum(["true", "false"])
    .optional()
    .describe("true: server-sent events, as with Accept: text/event-stream."),
};
const minFit = fitLevel.default("marginal").describe("At least this fit.");

export const nodesQuery = z.strictObject({
  ...paging,
  sort: z.enum(["name", "score", "memory"]).default("name").describe("memory: what is left, most first."),
});
export const nodeQuery = z.strictObject({ min_fit: minFit, watch: paging.watch });
export const plainQuery = z.strictObject(paging);
export const queryQuery = z.strictObject({
  model: name.describe(
    "A name, a repository or a file name. A family means its sizes: Qwen2.5 is never Qwen2.5-Coder.",
  ),
  min_fit: minFit,
  sort: z.enum(["score", "tps", "memory"]).default("score"),
  ...paging,
});
export const catalogQuery = z.strictObject({
  min_fit: minFit,
  sort: z.enum(["name", "score"]).default("name"),
  ...paging,
});
export const costQuery = z.strictObject({
  namespace: z.string().max(63).optional().describe("Only of this namespace."),
  ...paging,
});
export const simulateQuery = z.strictObject({
  min_fit: fitLevel.default("too_tight").describe("At least this fit."),
  ...pages,
});

export const simulateBody = z.strictObject({
  model: name,
  quantization: z.string().max(64).optional().describe("Default: the one that scores best."),
  context: z.int().min(1).max(1e8).optional().describe("Tokens. Default: 8192."),
  memoryGb: z.number().min(0).max(65_536).optional().describe("GiB in place of the claim; 0 for the claim."),
});
