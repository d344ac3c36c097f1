/** The amount of a model that is computed at the same time. */

export interface ComputeSettings {
  /** Tokens of a micro-batch, over all slots. */
  readonly tokens: number;
  readonly slots: number;
  readonly cellsPerStream: number;
  readonly streams: number;
  /** Cells per stream of windowed layers. */
  readonly windowCells: number;
  readonly hasFlashAttention: boolean;
  /** Bytes per element of the cached keys and values. */
  readonly keyBytes: number;
  readonly valueBytes: number;
  /** Rows of logits: one per slot, and one for each draft token. */
  readonly outputs: number;
  /** True if the results of all tokens are needed, for embedding and rerank. */
  readonly isPooled: boolean;
}

export const FLOAT = 4;
export const HALF = 2;
