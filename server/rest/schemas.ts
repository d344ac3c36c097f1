/** Input and output schemas of the density API. The OpenAPI document is generated from them, and tests validate responses with them. */
import { z } from "zod";
import { FIT_LEVELS } from "../../fitness/scoring/score.ts";
import { acceleratorSchema } from "../../src/api/fields/hardware.ts";
import { RUNS_ON } from "../../src/api/inference-service/rollout.ts";

const fitLevel = z.enum(FIT_LEVELS);
const score = z.number().min(0).max(100).describe("0 to 100, one decimal.");
const gb = (what: string) => z.number().min(0).describe(`${what}, in GiB, two decimals.`);
const percent = z.number().min(0).describe("Percent, one decimal.");
const nodeName = z.string().describe("Name of the Host or Node.");
const kind = z.enum(["Host", "Node"]);
const stale = z
  .boolean()
  .describe("True if the node has stopped reporting, so its figures may be out of date.");
const schedulable = z.boolean().describe("False if the node is cordoned or drained.");

const systemSchema = z
  .strictObject({
    total_ram_gb: gb("Installed memory"),
    available_ram_gb: gb("Memory available to programs"),
    cpu_cores: z.int().min(0),
    cpu_name: z.string(),
    has_gpu: z.boolean(),
    gpu_vram_gb: gb("Memory of one GPU. On a Mac: memory that engines may claim").nullable(),
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
  estimated_tps_low: z.number().min(0).describe("Lower end of the 90 % interval."),
  estimated_tps_high: z.number().min(0).describe("Upper end of the 90 % interval."),
  memory_required_gb: gb("Memory claim of the model"),
  memory_available_gb: gb("Total memory that engines may claim on the node"),
  utilization_pct: percent,
  category: z.enum(["General", "Coding", "Reasoning", "Chat", "Multimodal", "Embedding"]),
});

const nodeSchema = z.strictObject({
  nodeName,
  lastSeen: z.string().describe("Time of the last report, in UTC. 0001-01-01T00:00:00Z if there was none."),
  stale,
  system: systemSchema,
  modelFitCount: z.int().min(0).describe("Number of catalog models that fit."),
  runtimes: z.array(runtimeSchema),
  installedModels: z.array(installedSchema),
  kind,
  schedulable,
  bestScore: score,
  memoryLeftGb: gb(
    "Memory left for new engines: 0 on a cordoned node, null if the budget is unknown",
  ).nullable(),
  memoryBudgetGb: gb(
    "Memory that engines may claim in total, on a node with whole GPUs that of the GPUs; null if it is unknown",
  ).nullable(),
  problem: z.string().optional().describe("Why the node is stale or cannot be scored."),
});

const page = {
  total: z.int().min(0).describe("Number of rows on all pages."),
  nextOffset: z.int().min(1).optional().describe("Offset of the next page. Not set on the last page."),
};

export const nodesResponse = z.strictObject({ nodes: z.array(nodeSchema), ...page });

export const nodeResponse = z.strictObject({
  NodeName: nodeName,
  LastSeen: z.string(),
  System: systemSchema,
  ModelFits: z.array(fitSchema).describe("Sorted by score, best first."),
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

const machineSchema = z.strictObject({
  deviceClass: z.string().nullable().describe("Class of the machine; null if too little is known."),
  tokensPerSecond: z.number().nullable().describe("Tokens per second; null if no speed was measured."),
  basis: z
    .string()
    .nullable()
    .describe("measured: benchmark of the device class. live: rate of the host's own engine."),
  utilization: z.number().nullable().describe("Share of the slots in use, from 0 to 1; null if unknown."),
  cost: z.number().nullable().describe("Cost of the Host or Node; null if it states none."),
  score: z.number().describe("Higher is better."),
  why: z.string().describe("The figures behind the score."),
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
      fitsNow: z.boolean().describe("True if the model fits next to the models already placed on the node."),
      machine: machineSchema.describe(
        "Score of the machine for this model by measured speed, utilization and cost, as placement computes it with the weights of --score-weights.",
      ),
    }),
  ),
  models: z.array(z.string()).describe("Catalog models that match the name."),
  nearest: z.array(z.string()).optional().describe("Similar catalog names, if no model matches."),
  ...page,
});

export const catalogResponse = z.strictObject({
  models: z.array(
    z.strictObject({
      modelName: z.string(),
      bestScore: score,
      bestNode: nodeName,
      fitLevel: fitLevel.describe("Fit on the best node."),
      nodeCount: z.int().min(0).describe("Number of nodes that the model fits, listed or not."),
      nodes: z
        .array(
          z.strictObject({
            nodeName,
            score,
            fitLevel,
            stale,
            quantization: z.string(),
            requiredMemoryGb: gb("Memory claim of the model"),
            availableMemoryGb: gb("Total memory that engines may claim on the node"),
          }),
        )
        .describe("Sorted by score, best first."),
    }),
  ),
  ...page,
});

export const simulateResponse = z.strictObject({
  model: z.string(),
  rankedNodes: z.array(
    z.strictObject({
      nodeName,
      kind,
      currentScore: score,
      fitLevel,
      availableMemoryGb: gb("Memory left on the node before the placement"),
      requiredMemoryGb: gb("Memory claim of the model, or memoryGb"),
      remainingMemoryGb: gb("Memory left on the node after the placement"),
      utilizationPct: percent,
      quantization: z.string(),
      estimatedTps: z.number().min(0),
      stale,
      schedulable,
    }),
  ),
  canFitAnywhere: z.boolean().describe("True if the model fits a node that is neither stale nor cordoned."),
  note: z
    .string()
    .optional()
    .describe(
      "Present if the context is larger than the model can use: no fit is better than marginal then.",
    ),
  nearest: z.array(z.string()).optional(),
  ...page,
});

export const costResponse = z.strictObject({
  models: z.array(
    z.strictObject({
      name: z.string().describe("Name of the Model."),
      namespace: z.string(),
      placedNode: nodeName,
      phase: z
        .string()
        .describe(
          "Ready, or the first phase that is not Ready; with `, host unreachable` if its machine is away.",
        ),
      gpu: z.int().min(0).describe("Number of whole GPUs allocated to its pods."),
      memoryRequiredGb: gb(
        "Memory claimed by its replicas on the node: of the GPUs, if its pods use whole GPUs",
      ),
      utilizationPct: percent,
      fitnessScore: score.describe("0 if the model is not in the catalog."),
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
  limit: z.coerce
    .number()
    .int()
    .min(1)
    .max(MAX_ROWS)
    .optional()
    .describe("Maximum number of rows on this page."),
  offset: z.coerce.number().int().min(0).max(1e9).default(0).describe("Number of rows to skip."),
};
const paging = {
  ...pages,
  watch: z
    .enum(["true", "false"])
    .optional()
    .describe("Set to true to receive server-sent events, as with Accept: text/event-stream."),
};
const minFit = fitLevel.default("marginal").describe("Minimum fit level.");

export const nodesQuery = z.strictObject({
  ...paging,
  sort: z
    .enum(["name", "score", "memory"])
    .default("name")
    .describe("Sort order. memory: most memory left first."),
});
export const nodeQuery = z.strictObject({ min_fit: minFit, watch: paging.watch });
export const plainQuery = z.strictObject(paging);
export const queryQuery = z.strictObject({
  model: name.describe(
    "Model name, repository or file name. A family name matches all of its sizes: Qwen2.5 does not match Qwen2.5-Coder.",
  ),
  min_fit: minFit,
  sort: z.enum(["score", "tps", "memory"]).default("score"),
  ...paging,
});
export const catalogQuery = z.strictObject({
  min_fit: minFit,
  max_nodes: z.coerce
    .number()
    .int()
    .min(1)
    .max(MAX_ROWS)
    .optional()
    .describe("Maximum number of nodes listed for each model, the best ones. Default: all."),
  sort: z.enum(["name", "score"]).default("name"),
  ...paging,
});
export const costQuery = z.strictObject({
  namespace: z.string().max(63).optional().describe("Return only the models of this namespace."),
  ...paging,
});
export const simulateQuery = z.strictObject({
  min_fit: fitLevel.default("too_tight").describe("Minimum fit level."),
  ...pages,
});

const labelText = z.string().max(316);
const selectorSchema = z.strictObject({
  matchLabels: z.record(labelText, labelText).optional(),
  matchExpressions: z
    .array(
      z.strictObject({
        key: labelText,
        operator: z.enum(["In", "NotIn", "Exists", "DoesNotExist"]),
        values: z.array(labelText).max(64).optional(),
      }),
    )
    .max(256)
    .optional(),
});

export const simulateBody = z.strictObject({
  model: name,
  quantization: z
    .string()
    .max(64)
    .optional()
    .describe("Quantization to place. Default: that of the file in model, or the one with the best score."),
  context: z.int().min(1).max(1e8).optional().describe("Context size in tokens. Default: 8192."),
  slots: z
    .int()
    .min(1)
    .max(1024)
    .optional()
    .describe("Number of concurrent requests, which share the context. Default: 1."),
  memoryGb: z
    .number()
    .min(0)
    .max(65_536)
    .optional()
    .describe("Memory in GiB to use instead of the memory claim. 0: use the claim."),
  exclude: z
    .array(z.string().min(1).max(317))
    .max(64)
    .optional()
    .describe(
      "Names of hosts and nodes that are not candidates, for example because they are to be switched off, and NAMESPACE/NAME of services whose memory counts as free.",
    ),
  on: z
    .enum(RUNS_ON)
    .default("Auto")
    .describe("Where the service runs, as in its spec.placement.on: only these machines are candidates."),
  accelerator: acceleratorSchema
    .optional()
    .describe("Only nodes with this accelerator are candidates, as for pods of a Model that names it."),
  hosts: z
    .array(z.string().min(1).max(253))
    .max(1000)
    .optional()
    .describe("Names of the hosts that are candidates, as in spec.placement.hosts. Default: all."),
  hostSelectors: selectors("host", "spec.placement.hostSelector"),
  nodeSelectors: selectors("node", "spec.nodeSelector"),
});

/** The flavors of a Model and the terms of an affinity are alternatives. */
function selectors(machine: string, field: string) {
  return z
    .array(selectorSchema)
    .max(512)
    .optional()
    .describe(`A ${machine} is a candidate if its labels match one of these, as in ${field}. Default: all.`);
}
