/** How much of a model is computed at once. */

export interface ComputeSettings {
  /** Tokens of one micro-batch, over all slots. */
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
  /** Rows of logits: one per slot, and one more for every guess. */
  readonly outputs: number;
  /** Every token's result is wanted, as embedding and rerank need. */
  readonly isPooled: boolean;
}

export const FLOAT = 4;
export const HALF = 2;
