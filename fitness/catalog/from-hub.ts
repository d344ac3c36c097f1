/** Builds a record from the Hub's API, a model's config.json and an existing record. Pure. */
import { z } from "zod";
import { parseSplitName } from "../../src/models/source/split-files.ts";
import { recordDiscrepancies } from "./check.ts";
import { quantizationIn } from "./quantizations.ts";
import { type CatalogRecord, readCatalog } from "./record.ts";

const text = z.string().max(512);

/** The fields that are read from `GET /api/models/ORG/REPOSITORY?blobs=true`. */
export const hubModelSchema = z.object({
  id: text,
  sha: z.string().max(128).optional(),
  createdAt: text.optional(),
  pipeline_tag: text.nullish(),
  cardData: z.object({ license: z.unknown(), license_name: z.unknown() }).partial().nullish(),
  safetensors: z.object({ total: z.int().min(1).max(1e15) }).nullish(),
  siblings: z
    .array(z.object({ rfilename: z.string().max(1024), size: z.int().min(0).nullish() }))
    .max(20_000)
    .default([]),
});

export type HubModel = z.output<typeof hubModelSchema>;

export interface HubFindings {
  readonly model: HubModel;
  /** config.json of the same commit. */
  readonly config: unknown;
  /** Repositories with GGUF files of the model. */
  readonly gguf: readonly HubModel[];
}

/** Fields of config.json that a record has under the same name. */
const SHAPES = [
  ...["num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size"],
  ...["intermediate_size", "vocab_size", "moe_intermediate_size", "shared_expert_intermediate_size"],
  ...["first_k_dense_replace", "tie_word_embeddings", "sliding_window", "full_attention_interval"],
  ...["linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"],
  ...["linear_conv_kernel_dim", "kv_lora_rank", "q_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim"],
  "v_head_dim",
] as const;

/** The record, or the reason for a refusal. File sizes come from the Hub; other known values stay, and gaps are filled. */
export function recordFromHub(found: HubFindings, known: CatalogRecord | undefined): CatalogRecord | string {
  const fresh = freshRecord(found);
  const files_gb = { ...known?.files_gb, ...sizesOf(found.gguf) };
  const set = Object.entries(known ?? {}).filter(([, value]) => value !== undefined && value !== null);
  const sources = known?.gguf_sources.length ? known.gguf_sources : fresh.gguf_sources;
  const merged = { ...fresh, ...Object.fromEntries(set), gguf_sources: sources, files_gb };
  const { records, refused } = readCatalog(JSON.stringify([merged]));
  const [record] = records;
  if (record === undefined) return refused[0]?.why ?? "not a record";
  const [contradiction] = recordDiscrepancies(record);
  return contradiction ?? record;
}

function freshRecord({ model, config, gguf }: HubFindings) {
  const { id, sha, createdAt, pipeline_tag, cardData, safetensors } = model;
  const { shapes, context_length } = readConfig(config);
  const total = safetensors?.total;
  const at = sha === undefined ? "" : ` at ${sha.slice(0, 12)}`;
  return {
    name: id,
    provider: id.split("/")[0],
    ...(total === undefined ? {} : { parameters_raw: total, parameter_count: inWords(total) }),
    context_length,
    use_case: pipeline_tag === "feature-extraction" ? "embedding" : "chat",
    quantization: "Q4_K_M",
    license: [cardData?.license_name, cardData?.license].find((one) => typeof one === "string"),
    release_date: createdAt?.slice(0, 10),
    ...shapes,
    is_moe: shapes.num_experts !== undefined,
    gguf_sources: gguf.map((one) => ({ repo: one.id, provider: one.id.split("/")[0] })),
    source: `config.json of ${id}${at}`,
  };
}

function readConfig(config: unknown): {
  readonly shapes: Readonly<Record<string, unknown>>;
  readonly context_length: unknown;
} {
  const whole = fieldsOf(config);
  // Multimodal models nest the configuration of the language model.
  const inner = { ...whole, ...fieldsOf(whole.text_config) };
  const first = (...names: readonly string[]) => names.map((name) => inner[name]).find((one) => one != null);
  const shapes = Object.fromEntries(SHAPES.map((name) => [name, inner[name] ?? undefined]));
  const experts = first("num_experts", "num_local_experts", "n_routed_experts");
  return {
    shapes: {
      ...shapes,
      architecture: first("model_type"),
      num_experts: experts,
      active_experts:
        experts === undefined ? undefined : first("num_experts_per_tok", "num_experts_per_token"),
      ...(inner.use_sliding_window === false ? { sliding_window: undefined } : {}),
    },
    context_length: first("max_position_embeddings"),
  };
}

/** Decimal GB by quantization. A quantization with several variants in a repository is skipped. */
function sizesOf(repositories: readonly HubModel[]): Readonly<Record<string, number>> {
  const sizes: Record<string, number> = {};
  for (const repository of repositories)
    for (const [quantization, files] of variantsOf(repository)) {
      const [bytes = Number.NaN, ...others] = files.values();
      if (others.length === 0 && bytes > 0) sizes[quantization] = Math.round(bytes / 1e7) / 100;
    }
  return sizes;
}

/** Bytes of each file, by quantization. The parts of a split file are added up. */
function variantsOf({ siblings }: HubModel): ReadonlyMap<string, ReadonlyMap<string, number>> {
  const variants = new Map<string, Map<string, number>>();
  for (const { rfilename, size } of siblings) {
    if (!rfilename.endsWith(".gguf") || /mmproj|imatrix/i.test(rfilename)) continue;
    const quantization = quantizationIn(rfilename.slice(rfilename.lastIndexOf("/") + 1));
    if (quantization === undefined) continue;
    const files = variants.get(quantization) ?? new Map<string, number>();
    const stem = parseSplitName(rfilename)?.stem ?? rfilename;
    variants.set(quantization, files.set(stem, (files.get(stem) ?? 0) + (size ?? Number.NaN)));
  }
  return variants;
}

function inWords(total: number): string {
  const [unit, size] = total >= 1e9 ? (["B", 1e9] as const) : (["M", 1e6] as const);
  return `${Number((total / size).toPrecision(3))}${unit}`;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}
