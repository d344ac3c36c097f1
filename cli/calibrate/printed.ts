/** Reads buffer sizes from the log of llama-server (at `-lv 4`). */

export interface PrintedBuffers {
  readonly weightsBytes: number;
  /** KV cache and recurrent state. */
  readonly kvBytes: number;
  readonly computeBytes: number;
  readonly outputBytes: number;
  readonly totalBytes: number;
  /** Names of the backends that hold them, for example CPU or MTL0. */
  readonly backends: readonly string[];
}

const MIB = 1 << 20;
const LINE = /^.*?:\s+(\S+)\s+(model|KV|RS|compute|output) buffer size =\s+([\d.]+) MiB$/gm;

/** Undefined if the log does not contain all buffers. */
export function parsePrintedBuffers(log: string): PrintedBuffers | undefined {
  const sums = { model: 0, KV: 0, RS: 0, compute: 0, output: 0 };
  const backends = new Set<string>();
  for (const [, backend = "", kind, mib] of log.matchAll(LINE)) {
    backends.add(backend.replace(/_(Mapped|Host)$/, ""));
    sums[kind as keyof typeof sums] += Number(mib) * MIB;
  }
  if (sums.model === 0 || sums.compute === 0) return undefined;
  const parts = {
    weightsBytes: sums.model,
    kvBytes: sums.KV + sums.RS,
    computeBytes: sums.compute,
    outputBytes: sums.output,
  };
  const totalBytes = Object.values(parts).reduce((sum, part) => sum + part, 0);
  return { ...parts, totalBytes, backends: [...backends].sort() };
}
