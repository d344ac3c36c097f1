/** One case of the grid: the estimate from the file's header beside what the real engine printed. */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { measureBuffers } from "../../cli/calibrate/measure.ts";
import type { PrintedBuffers } from "../../cli/calibrate/printed.ts";
import { writeSparseModel } from "../../cli/calibrate/sparse-model.ts";
import { readGguf } from "../../cli/gguf/read.ts";
import type { MemoryClaim } from "../../src/engines/contract/claims.ts";
import { estimateClaim } from "../../src/engines/llamacpp/claim/claim.ts";
import type { ClaimCase } from "./grid.ts";

export interface ClaimComparison {
  readonly estimated: MemoryClaim;
  readonly printed: PrintedBuffers;
  /** Relative error of the sum: positive if the estimate is too high. */
  readonly error: number;
  readonly computeError: number;
}

let files = 0;

export async function compareClaims(
  program: string,
  folder: string,
  { model, settings }: ClaimCase,
): Promise<ClaimComparison> {
  const path = join(folder, `${files++}.gguf`);
  const sizeBytes = await writeSparseModel(path, model);
  if (sizeBytes < 100 << 20) throw new Error(`a model of ${sizeBytes} bytes is too small to compare`);
  try {
    const { summary } = await readGguf(path);
    const estimated = estimateClaim(summary, settings);
    const printed = await measureBuffers(program, path, settings);
    const sum = estimated.weightsBytes + estimated.kvBytes + estimated.computeBytes + estimated.outputBytes;
    return {
      estimated,
      printed,
      error: sum / printed.totalBytes - 1,
      computeError: estimated.computeBytes / printed.computeBytes - 1,
    };
  } finally {
    await rm(path);
  }
}
