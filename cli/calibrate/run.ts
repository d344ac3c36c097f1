/** Runs a calibration: measures every case on the engine, and fits the coefficients. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { estimateClaim } from "../../src/engines/llamacpp/claim/claim.ts";
import { fitComputeTable } from "../../src/engines/llamacpp/claim/compute/fit.ts";
import type { ComputeTable } from "../../src/engines/llamacpp/claim/compute/table.ts";
import { readGguf } from "../gguf/read.ts";
import { measureBuffers } from "./measure.ts";
import type { PrintedBuffers } from "./printed.ts";
import type { CalibrationCase } from "./sizes.ts";
import { writeSparseModel } from "./sparse-model.ts";

export interface CalibrationSample {
  readonly name: string;
  readonly laidOutBytes: number;
  readonly printed: PrintedBuffers;
}

export interface Calibration {
  /** Backends of the engine, for example CPU or MTL0. */
  readonly backends: readonly string[];
  readonly samples: readonly CalibrationSample[];
  /** Undefined if the sizes allow no fit. */
  readonly table: ComputeTable | undefined;
}

export interface CalibrationOptions {
  readonly program: string;
  readonly cases: readonly CalibrationCase[];
  readonly signal: AbortSignal;
  readonly onSample: (sample: CalibrationSample) => void;
}

export async function runCalibration({
  program,
  cases,
  signal,
  onSample,
}: CalibrationOptions): Promise<Calibration> {
  const folder = await mkdtemp(join(tmpdir(), "metalbridge-calibrate-"));
  const samples: CalibrationSample[] = [];
  try {
    for (const { name, model, settings } of cases) {
      const path = join(folder, "model.gguf");
      await writeSparseModel(path, model);
      const { summary } = await readGguf(path);
      const laidOutBytes = estimateClaim(summary, settings).computeBytes;
      const sample = {
        name,
        laidOutBytes,
        printed: await measureBuffers(program, path, settings, { signal }),
      };
      samples.push(sample);
      onSample(sample);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  const backends = [...new Set(samples.flatMap(({ printed }) => printed.backends))].sort();
  const measured = samples.map(({ laidOutBytes, printed }) => ({
    laidOutBytes,
    printedBytes: printed.computeBytes,
  }));
  return { backends, samples, table: fitComputeTable(measured, `measured on ${backends.join(" and ")}`) };
}
