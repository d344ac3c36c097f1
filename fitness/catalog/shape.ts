/** Computes parameters, the share that one token reads, and the summary for a memory claim from a record's shapes. Pure. */
import { type GgufSummary, isSlidingIn } from "../../src/models/gguf/summary.ts";
import { summarizeMlx } from "../../src/models/mlx/summary.ts";
import { type CatalogRecord, perRecord } from "./record.ts";

/** Parameters by how often a token reads them. */
export interface Parameters {
  /** Attention, dense feed-forward and the output matrix: read for every token. */
  readonly always: number;
  readonly experts: number;
  /** Parameters of the experts that one token uses. */
  readonly expertsUsed: number;
  /** The input embedding, of which a token reads one row; 0 if it is also the output matrix. */
  readonly embedding: number;
}

/** Architectures whose feed-forward part has two matrices; others also have a gate. */
const WITHOUT_GATE = new Set(["bert", "xlm-roberta"]);

/** Undefined if the record lacks a shape. Norms and biases, less than 0.1 %, are ignored. */
export const parametersOf = perRecord((record): Parameters | undefined => {
  const { num_hidden_layers: layers, hidden_size: width, vocab_size: vocabulary } = record;
  if (layers === undefined || width === undefined || vocabulary === undefined) return undefined;
  const attention = attentionOf(record, width);
  const matrices = WITHOUT_GATE.has(record.architecture ?? "") ? 2 : 3;
  const feedForward = matrices * width * (record.intermediate_size ?? 0);
  if (attention === undefined || (feedForward === 0 && record.num_experts === undefined)) return undefined;
  const expert = 3 * width * (record.moe_intermediate_size ?? 0);
  const dense = denseLayers(record, layers);
  const mixed = layers - dense;
  const shared = 3 * width * (record.shared_expert_intermediate_size ?? 0);
  const router = width * (record.num_experts ?? 0);
  const embedding = vocabulary * width;
  return {
    always: attention * layers + feedForward * dense + (shared + router) * mixed + embedding,
    experts: mixed * (record.num_experts ?? 0) * expert,
    expertsUsed: mixed * (record.active_experts ?? 0) * expert,
    embedding: record.tie_word_embeddings === true ? 0 : embedding,
  };
});

function denseLayers({ num_experts, first_k_dense_replace = 0 }: CatalogRecord, layers: number): number {
  return num_experts === undefined ? layers : Math.min(layers, first_k_dense_replace);
}

/** Parameters of one layer's attention; the average if layers differ. */
function attentionOf(record: CatalogRecord, width: number): number | undefined {
  const { num_attention_heads: heads, kv_lora_rank: rank } = record;
  if (heads === undefined) return undefined;
  if (rank !== undefined) return latentAttention(record, width, heads, rank);
  const size = record.head_dim ?? Math.floor(width / heads);
  const keyValue = 2 * width * (record.num_key_value_heads ?? heads) * size;
  const { linear_num_value_heads: valueHeads, linear_num_key_heads: keyHeads = 0 } = record;
  if (valueHeads === undefined) return 2 * width * heads * size + keyValue;
  // In models with recurrent layers, queries have a gate of their size.
  const full = 3 * width * heads * size + keyValue;
  const inner = valueHeads * (record.linear_value_head_dim ?? 0);
  const keys = keyHeads * (record.linear_key_head_dim ?? 0);
  const linear = width * (2 * keys + inner) + 2 * width * inner;
  const interval = record.full_attention_interval ?? 1;
  return (full + (interval - 1) * linear) / interval;
}

function latentAttention(record: CatalogRecord, width: number, heads: number, rank: number): number {
  const { qk_rope_head_dim: rope = 0, qk_nope_head_dim: plain = 0, v_head_dim: value = 0 } = record;
  const queryRank = record.q_lora_rank;
  const queries = heads * (rope + plain);
  const query = queryRank === undefined ? width * queries : queryRank * (width + queries);
  return query + width * (rank + rope) + rank * heads * (plain + value) + heads * value * width;
}

/** The summary that the model's files would have, as far as the record has the data. */
export function summaryOf(record: CatalogRecord, weightsBytes: number): GgufSummary {
  const { architecture, active_experts, sliding_window_pattern, quantization: _, ...config } = record;
  const { num_hidden_layers: layers = 0 } = config;
  const layer_types =
    record.sliding_window === undefined || sliding_window_pattern === undefined
      ? undefined
      : Array.from({ length: layers }, (_, layer) =>
          isSlidingIn(sliding_window_pattern, layer) ? "sliding_attention" : "full_attention",
        );
  return summarizeMlx(
    {
      ...config,
      model_type: architecture ?? undefined,
      max_position_embeddings: record.context_length,
      num_experts_per_tok: active_experts,
      layer_types,
    },
    weightsBytes,
  );
}
