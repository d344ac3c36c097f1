/** From a header to what sizes memory beyond the plain counts: kinds of layers, experts, latent attention, recurrent state. */

import type { MODEL_TRAITS, ModelSizing, RECURRENT_KINDS } from "../../api/fields/gguf.ts";
import { defined } from "../../util/defined.ts";
import type { BlockTensors, GgufValue } from "./types.ts";
import { countFrom, numbers } from "./values.ts";

export type FieldLookup = (key: string) => GgufValue | undefined;
export type Blocks = ReadonlyMap<string, BlockTensors>;
type Recurrent = NonNullable<ModelSizing["recurrent"]>;

export interface SizingInput {
  /** Metadata of the architecture. */
  readonly of: FieldLookup;
  readonly blocks: Blocks;
  readonly layerCount: number | undefined;
  readonly embeddingSize: number | undefined;
  readonly feedForwardLength: number | undefined;
  /** Per layer: true where it is windowed. */
  readonly slidingLayers: readonly boolean[] | undefined;
}

/** Undefined where the plain counts say all. */
export function sizingOf(input: SizingInput): ModelSizing | undefined {
  const { of } = input;
  const traits = traitsOf(input);
  const recurrent = recurrentOf(input);
  const sizing = defined<ModelSizing>({
    layerKinds: layerKinds(input, recurrent !== undefined),
    headCountKVByLayer: headsByLayer(input),
    keyLengthSliding: countFrom(of("attention.key_length_swa")),
    valueLengthSliding: countFrom(of("attention.value_length_swa")),
    ...expertsOf(input),
    latent: latentOf(of),
    recurrent,
    traits: traits.length === 0 ? undefined : traits,
  });
  return Object.keys(sizing).length === 0 ? undefined : sizing;
}

const MAX_LISTED = 1024;

function headsByLayer({ of, layerCount }: SizingInput): number[] | undefined {
  const listed = numbers(of("attention.head_count_kv"));
  const shared = countFrom(of("attention.shared_kv_layers")) ?? 0;
  if (layerCount === undefined || layerCount > MAX_LISTED) return undefined;
  if (shared > 0 && shared < layerCount) {
    // The last layers read the caches of earlier ones.
    const heads = countFrom(of("attention.head_count_kv")) ?? countFrom(of("attention.head_count")) ?? 0;
    return Array.from({ length: layerCount }, (_, layer) =>
      layer < layerCount - shared ? (listed?.[layer] ?? heads) : 0,
    );
  }
  const [first] = listed ?? [];
  return listed?.some((heads) => heads !== first) ? listed.slice(0, layerCount) : undefined;
}

const RECURRENT_PARTS = ["ssm_conv1d.weight", "ssm_a", "shortconv.conv.weight", "time_mix_w1.weight"];

function layerKinds(input: SizingInput, isRecurrent: boolean): string | undefined {
  const { layerCount, slidingLayers } = input;
  if (layerCount === undefined) return undefined;
  const { hasAttention, hasState } = layerTests(input, isRecurrent);
  const kindOf = (layer: number): string => {
    if (hasState(layer)) return hasAttention(layer) ? "b" : "r";
    if (!hasAttention(layer)) return "n";
    return slidingLayers?.[layer] ? "w" : "a";
  };
  const kinds = Array.from({ length: layerCount }, (_, layer) => kindOf(layer)).join("");
  return /^a*$/.test(kinds) ? undefined : kinds;
}

type LayerTest = (layer: number) => boolean;

/** Decides by the tensors of a layer, or by the metadata if no file with tensors was read. */
function layerTests(
  { of, blocks }: SizingInput,
  isRecurrent: boolean,
): Record<"hasAttention" | "hasState", LayerTest> {
  const attention = layersWith(blocks, ["attn_output.weight"]);
  const recurrent = layersWith(blocks, RECURRENT_PARTS);
  if (!isRecurrent) return { hasAttention: () => true, hasState: () => false };
  if (attention.size + recurrent.size > 0) {
    return { hasAttention: (layer) => attention.has(layer), hasState: (layer) => recurrent.has(layer) };
  }
  const heads = numbers(of("attention.head_count_kv"));
  const interval = countFrom(of("full_attention_interval")) ?? 0;
  const hasAttention: LayerTest =
    heads === undefined
      ? (layer) => interval > 0 && (layer + 1) % interval === 0
      : (layer) => (heads[layer] ?? 0) > 0;
  return { hasAttention, hasState: (layer) => !hasAttention(layer) };
}

function layersWith(blocks: Blocks, parts: readonly string[]): Set<number> {
  return new Set(parts.flatMap((part) => blocks.get(part)?.layers ?? []));
}

function expertsOf({ of, feedForwardLength }: SizingInput) {
  const total = countFrom(of("expert_count")) ?? 0;
  if (total === 0) return {};
  const width = countFrom(of("expert_feed_forward_length")) || feedForwardLength;
  const shared =
    countFrom(of("expert_shared_feed_forward_length")) ||
    (countFrom(of("expert_shared_count")) ?? 0) * (width ?? 0);
  return {
    expertsUsed: countFrom(of("expert_used_count")),
    expertWidth: width,
    sharedExpertWidth: shared || undefined,
    denseLayers: countFrom(of("leading_dense_block_count")) || undefined,
  };
}

function latentOf(of: FieldLookup): ModelSizing["latent"] {
  const rank = countFrom(of("attention.kv_lora_rank"));
  const keyLength = countFrom(of("attention.key_length_mla"));
  const valueLength = countFrom(of("attention.value_length_mla"));
  // Without these two the engine caches full keys and values.
  if (!rank || !keyLength || !valueLength) return undefined;
  const ropeLength = countFrom(of("rope.dimension_count")) ?? 0;
  return { rank, ropeLength, queryRank: countFrom(of("attention.q_lora_rank")) ?? 0, keyLength, valueLength };
}

function recurrentOf({ of, blocks, embeddingSize = 0 }: SizingInput): Recurrent | undefined {
  const innerSize = countFrom(of("ssm.inner_size")) ?? 0;
  const stateSize = countFrom(of("ssm.state_size")) ?? 0;
  const groups = countFrom(of("ssm.group_count")) ?? 0;
  const kernel = countFrom(of("ssm.conv_kernel")) ?? 4;
  const rank = countFrom(of("ssm.time_step_rank")) ?? 0;
  if (innerSize > 0 && stateSize > 0) {
    const channels = innerSize + 2 * groups * stateSize;
    const stateElements = Math.max(0, kernel - 1) * channels + innerSize * stateSize;
    return { kind: stateKind(blocks, groups), stateElements, innerSize, stateSize, groups, kernel, rank };
  }
  const none = { innerSize: embeddingSize, stateSize: 0, groups: 0, rank: 0 };
  const headSize = countFrom(of("wkv.head_size"));
  if (headSize !== undefined && headSize > 0) {
    const shifts = countFrom(of("token_shift_count")) || 2;
    return { ...none, kind: "wkv", stateElements: embeddingSize * (headSize + shifts), kernel: shifts };
  }
  const cached = countFrom(of("shortconv.l_cache"));
  if (cached === undefined || cached === 0) return undefined;
  return { ...none, kind: "shortConvolution", stateElements: embeddingSize * (cached - 1), kernel: cached };
}

function stateKind(blocks: Blocks, groups: number): (typeof RECURRENT_KINDS)[number] {
  if (blocks.has("ssm_x.weight")) return "mamba";
  const hasDelta = ["ssm_ba.weight", "ssm_beta_alpha.weight", "ssm_alpha.weight", "ssm_beta.weight"];
  if (hasDelta.some((part) => blocks.has(part))) return "deltaNet";
  return groups > 0 || blocks.has("ssm_in.weight") ? "mamba2" : "mamba";
}

function traitsOf({ blocks, feedForwardLength = 0 }: SizingInput): (typeof MODEL_TRAITS)[number][] {
  if (blocks.size === 0) return [];
  const has = (part: string) => blocks.has(`${part}.weight`);
  const isPlain = has("ffn_up") && !has("ffn_gate");
  const isFused =
    isPlain && feedForwardLength > 0 && (blocks.get("ffn_up.weight")?.rows ?? 0) > feedForwardLength;
  const traits: Readonly<Record<(typeof MODEL_TRAITS)[number], boolean>> = {
    fusedQKV: has("attn_qkv"),
    fusedGate: isFused,
    noGate: isPlain && !isFused,
    queryNorm: has("attn_q_norm"),
    parallel: has("attn_norm") && has("ffn_up") && !has("ffn_norm") && !has("post_attention_norm"),
    fusedExperts: has("ffn_gate_up_exps"),
  };
  return (Object.keys(traits) as (keyof typeof traits)[]).filter((trait) => traits[trait]);
}
