/** The catalog's records: llmfit's fields, and the fields of a model's config.json under their own names. Pure. */

import { z } from "zod";
import { parseJson } from "../../src/util/parse-json.ts";

const count = z.int().min(1).max(1e15);
const optional = count.nullish().transform((value) => value ?? undefined);
const word = z.string().min(1).max(512);
const words = z.array(word).max(64);
/** Texts in place of a release date. */
const NO_DATE = /^(unknown|n\/a)?$/i;
const day = z.iso.date();

const UNITS: Readonly<Record<string, number>> = { K: 1e3, M: 1e6, B: 1e9, T: 1e12 };

const recordSchema = z.object({
  /** `org/repository`; in llmfit's records also a plain name. */
  name: word,
  provider: word,
  /** As the publisher writes it: 8.03B. */
  parameter_count: z.string().regex(/^\d+(\.\d+)?[KMBT]$/, "must be a number with K, M, B or T"),
  /** Exact, counted from the shapes. */
  parameters_raw: optional,
  context_length: count,
  use_case: z.string().max(512),
  /** Quantization that an installation uses by default. */
  quantization: word,
  license: word.nullish(),
  release_date: z.string().max(32).nullish(),
  capabilities: words.default([]),
  /** `model_type` of config.json. */
  architecture: word.nullish(),
  is_moe: z.boolean().default(false),
  num_experts: optional,
  active_experts: optional,
  active_parameters: optional,
  num_hidden_layers: optional,
  num_attention_heads: optional,
  num_key_value_heads: optional,
  head_dim: optional,
  hidden_size: optional,
  intermediate_size: optional,
  vocab_size: optional,
  moe_intermediate_size: optional,
  shared_expert_intermediate_size: optional,
  first_k_dense_replace: optional,
  tie_word_embeddings: z.boolean().optional(),
  sliding_window: optional,
  /** One of this many layers has full attention. */
  sliding_window_pattern: optional,
  full_attention_interval: optional,
  linear_num_key_heads: optional,
  linear_num_value_heads: optional,
  linear_key_head_dim: optional,
  linear_value_head_dim: optional,
  linear_conv_kernel_dim: optional,
  kv_lora_rank: optional,
  q_lora_rank: optional,
  qk_rope_head_dim: optional,
  qk_nope_head_dim: optional,
  v_head_dim: optional,
  gguf_sources: z
    .array(z.object({ repo: word, provider: word }))
    .max(64)
    .default([]),
  mlx_sources: words.default([]),
  /** Decimal GB of published files, by quantization, as their repository prints them. */
  files_gb: z.record(word, z.number().positive().max(1e5)).default({}),
  /** Origin of the values. */
  source: word.optional(),
  /** llmfit's values for a 4-bit file, in GiB, for compatibility mode. */
  min_ram_gb: z.number().min(0).optional(),
  recommended_ram_gb: z.number().min(0).optional(),
  min_vram_gb: z.number().min(0).nullish(),
  format: word.optional(),
});

export type CatalogRecord = z.output<typeof recordSchema>;

export interface Catalog {
  readonly records: readonly CatalogRecord[];
  /** Dropped records with the reason. */
  readonly refused: readonly { readonly where: string; readonly why: string }[];
}

/** Reads JSON lines (our format) or one JSON array (llmfit's). A later record replaces an earlier one of the same name. */
export function readCatalog(...texts: readonly string[]): Catalog {
  const records = new Map<string, CatalogRecord>();
  const refused: { where: string; why: string }[] = [];
  for (const text of texts) {
    const seen = new Set<string>();
    for (const [index, value] of valuesOf(text).entries()) {
      const parsed = recordSchema.safeParse(value);
      const why = parsed.success ? inconsistency(parsed.data, seen) : firstIssue(parsed.error);
      if (parsed.success && why === undefined) records.set(parsed.data.name.toLowerCase(), parsed.data);
      else refused.push({ where: nameOf(value) ?? `record ${index + 1}`, why: why ?? "" });
    }
  }
  return { records: [...records.values()], refused };
}

/** All parameters, in billions. */
export function billions({ parameters_raw, parameter_count }: CatalogRecord): number {
  if (parameters_raw !== undefined) return parameters_raw / 1e9;
  return (Number(parameter_count.slice(0, -1)) * (UNITS[parameter_count.slice(-1)] ?? 0)) / 1e9;
}

/** Caches the result per record, because a fleet needs each one thousands of times. */
export function perRecord<T>(work: (record: CatalogRecord) => T): (record: CatalogRecord) => T {
  const known = new WeakMap<CatalogRecord, { readonly value: T }>();
  return (record) => {
    const found = known.get(record) ?? { value: work(record) };
    known.set(record, found);
    return found.value;
  };
}

export const hasReleaseDay = perRecord((record) => {
  return !NO_DATE.test(record.release_date ?? "") && day.safeParse(record.release_date).success;
});

function valuesOf(text: string): readonly unknown[] {
  const whole = parseJson(text);
  if (Array.isArray(whole)) return whole;
  return text.split("\n").flatMap((line) => (line.trim() === "" ? [] : [parseJson(line) ?? line]));
}

function nameOf(value: unknown): string | undefined {
  const parsed = z.object({ name: word }).safeParse(value);
  return parsed.success ? parsed.data.name : undefined;
}

function firstIssue({ issues }: z.ZodError): string {
  const [issue] = issues;
  if (issue === undefined) return "not a record";
  return issue.path.length === 0 ? "not a JSON object" : `${issue.path.join(".")}: ${issue.message}`;
}

/** Checks that the schema cannot express. */
function inconsistency(record: CatalogRecord, seen: Set<string>): string | undefined {
  const key = record.name.toLowerCase();
  if (seen.has(key)) return "name: is a duplicate";
  seen.add(key);
  const total = billions(record) * 1e9;
  if (total === 0) return "parameter_count: is 0";
  if ((record.active_parameters ?? 0) > total) return "active_parameters: more than parameter_count";
  if ((record.active_experts ?? 0) > (record.num_experts ?? Number.POSITIVE_INFINITY))
    return "active_experts: more than num_experts";
  return undefined;
}

/** The category of a model, by llmfit's names. */
export type Category = "General" | "Coding" | "Reasoning" | "Chat" | "Multimodal" | "Embedding";

export function categoryOf({ name, use_case }: CatalogRecord): Category {
  const [model, use] = [name.toLowerCase(), use_case.toLowerCase()];
  if (use.includes("embedding") || /embed|bge/.test(model)) return "Embedding";
  // Our own records say coding.
  if (/code|coding/.test(use) || model.includes("code")) return "Coding";
  if (/vision|multimodal/.test(use)) return "Multimodal";
  if (/reason|chain-of-thought/.test(use) || model.includes("deepseek-r1")) return "Reasoning";
  return /chat|instruction/.test(use) ? "Chat" : "General";
}
