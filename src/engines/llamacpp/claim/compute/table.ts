/** How a backend's compute buffers differ from the layout of one buffer: coefficients, measured or not. */

export interface ComputeTable {
  /** For people: which backend, and where the numbers come from. */
  readonly source: string;
  /** Part of the laid-out size. */
  readonly factor: number;
  /** How often what is filled in before a computation exists beside it, for example as copies on the GPU. */
  readonly inputCopies: number;
  readonly extraBytes: number;
  readonly isMeasured: boolean;
}

export const COMPUTE_TABLES = {
  cpu: {
    source: "CPU backend, llama-server b11669",
    factor: 1,
    inputCopies: 0,
    extraBytes: 0,
    isMeasured: true,
  },
  /** The CPU keeps the inputs and the GPU gets copies of them; its kernels' scratch space is a guess. */
  metal: {
    source: "Metal backend, not measured",
    factor: 1.05,
    inputCopies: 1,
    extraBytes: 0,
    isMeasured: false,
  },
} as const satisfies Record<string, ComputeTable>;

/** What was laid out, and how much of it the inputs are, by a backend's coefficients. */
export function applyComputeTable(table: ComputeTable, laidOut: number, inputs: number): number {
  return table.factor * laidOut + table.inputCopies * inputs + table.extraBytes;
}
