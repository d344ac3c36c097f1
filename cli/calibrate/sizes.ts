/** Models and settings of a calibration. Each case differs from the base in one respect. */
import type { ClaimSettings } from "../../src/engines/llamacpp/claim/claim-settings.ts";
import type { SparseModel } from "./sparse-model.ts";

export interface CalibrationCase {
  readonly name: string;
  readonly model: SparseModel;
  readonly settings: ClaimSettings;
}

const DENSE: SparseModel = {
  architecture: "llama",
  layers: 6,
  width: 2048,
  heads: 16,
  kvHeads: 4,
  headSize: 128,
  feedForward: 5632,
  vocabulary: 32_000,
  weightType: "q8_0",
};
const EXPERTS: SparseModel = {
  ...DENSE,
  architecture: "qwen3moe",
  experts: { count: 16, used: 4, width: 768 },
};
const WINDOWED: SparseModel = { ...DENSE, architecture: "gemma3", window: 1024 };
const BASE: ClaimSettings = {
  contextSize: 8192,
  parallelSlots: 1,
  kvUnified: false,
  flashAttention: true,
  batchSize: 2048,
  uBatchSize: 512,
  promptCacheMiB: 0,
};

const CASES: readonly CalibrationCase[] = [
  { name: "dense", model: DENSE, settings: BASE },
  { name: "dense, micro-batch 2048", model: DENSE, settings: { ...BASE, uBatchSize: 2048 } },
  { name: "dense, 32768 tokens", model: DENSE, settings: { ...BASE, contextSize: 32_768 } },
  { name: "dense, 4 slots", model: DENSE, settings: { ...BASE, parallelSlots: 4 } },
  { name: "dense, q8_0 cache", model: DENSE, settings: { ...BASE, cacheTypeK: "q8_0", cacheTypeV: "q8_0" } },
  { name: "dense, no flash attention", model: DENSE, settings: { ...BASE, flashAttention: false } },
  { name: "experts", model: EXPERTS, settings: BASE },
  { name: "experts, micro-batch 2048", model: EXPERTS, settings: { ...BASE, uBatchSize: 2048 } },
  { name: "windowed", model: WINDOWED, settings: BASE },
];

/** Three cases determine a factor and an offset. All cases also verify that the two are sufficient. */
export function calibrationCases(isQuick: boolean): readonly CalibrationCase[] {
  return isQuick ? CASES.slice(0, 3) : CASES;
}
