/** Finds contradictions within a record, and between a record and the header of a file. Pure. */
import type { GgufSummary } from "../../src/models/gguf/summary.ts";
import { fileSize, quantizationOf } from "./quantizations.ts";
import { billions, type CatalogRecord, hasReleaseDay } from "./record.ts";
import { parametersOf } from "./shape.ts";

/** Tolerance for norms, biases, projectors and rounding. */
const SHAPES_OFF = 0.1;
const FILES_OFF = 0.12;

/** One sentence per contradiction. */
export function recordDiscrepancies(record: CatalogRecord, file?: GgufSummary): readonly string[] {
  return file === undefined ? contradictions(record) : differences(record, file);
}

function contradictions(record: CatalogRecord): readonly string[] {
  const found: string[] = [];
  const total = billions(record) * 1e9;
  const parts = parametersOf(record);
  if (parts !== undefined) {
    const sum = parts.always + parts.experts + parts.embedding;
    if (isOff(sum, total, SHAPES_OFF))
      found.push(`its shapes add up to ${inBillions(sum)} parameters, not ${inBillions(total)}`);
  }
  if (quantizationOf(record.quantization) === undefined)
    found.push(`quantization ${record.quantization} is not known`);
  if (record.release_date != null && !hasReleaseDay(record))
    found.push(`release_date ${record.release_date} is no day`);
  for (const [name, gb] of Object.entries(record.files_gb)) {
    const quantization = quantizationOf(name);
    const derived = quantization && fileSize({ ...record, files_gb: {} }, quantization).bytes / 1e9;
    if (derived === undefined) found.push(`files_gb.${name} is not a known quantization`);
    else if (isOff(gb, derived, FILES_OFF))
      found.push(`files_gb.${name} is ${gb}, its parameters make ${derived.toFixed(2)}`);
  }
  return found;
}

function differences(record: CatalogRecord, file: GgufSummary): readonly string[] {
  const pairs: readonly (readonly [string, number | undefined, number | undefined])[] = [
    ["num_hidden_layers", record.num_hidden_layers, file.layerCount],
    ["hidden_size", record.hidden_size, file.embeddingSize],
    ["num_attention_heads", record.num_attention_heads, file.headCount],
    [
      "num_key_value_heads",
      record.kv_lora_rank === undefined ? record.num_key_value_heads : undefined,
      file.headCountKV,
    ],
    ["head_dim", record.kv_lora_rank === undefined ? record.head_dim : undefined, file.keyLength],
    ["num_experts", record.num_experts, file.expertCount || undefined],
    ["context_length", record.context_length, file.contextLength],
    ["sliding_window", record.sliding_window, file.slidingWindow],
  ];
  const found = pairs.flatMap(([key, ours, theirs]) =>
    ours === undefined || theirs === undefined || ours === theirs
      ? []
      : [`${key} is ${ours}, in the file ${theirs}`],
  );
  const count = file.parameterCount;
  const total = billions(record) * 1e9;
  if (count !== undefined && isOff(count, total, SHAPES_OFF))
    found.push(`parameters are ${inBillions(total)}, in the file ${inBillions(count)}`);
  return found;
}

function isOff(one: number, other: number, tolerance: number): boolean {
  return Math.abs(one / other - 1) > tolerance;
}

function inBillions(count: number): string {
  return `${(count / 1e9).toFixed(2)}B`;
}
