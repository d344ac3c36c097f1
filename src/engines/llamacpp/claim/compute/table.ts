/** Coefficients that convert the laid-out size to the compute buffers of a backend. */

export interface ComputeTable {
  /** Human-readable backend and origin of the numbers. */
  readonly source: string;
  /** Factor on the laid-out size. */
  readonly factor: number;
  /** Number of additional copies of the inputs, for example on the GPU. */
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
  /** The CPU keeps the inputs and the GPU gets copies. The scratch space of the kernels is estimated. */
  metal: {
    source: "Metal backend, not measured",
    factor: 1.05,
    inputCopies: 1,
    extraBytes: 0,
    isMeasured: false,
  },
} as const satisfies Record<string, ComputeTable>;

/** Applies the coefficients of a backend to the laid-out size and the size of its inputs. */
export function applyComputeTable(table: ComputeTable, laidOut: number, inputs: number): number {
  return table.factor * laidOut + table.inputCopies * inputs + table.extraBytes;
}
