/** Quantizations: bits per weight, the ladder from best to smallest, and the size of a record's files. Pure. */
import { type Accelerator, DEFAULT_MODEL_ACCELERATOR } from "../../src/api/fields/hardware.ts";
import { billions, type CatalogRecord } from "./record.ts";
import { parametersOf } from "./shape.ts";

export type QuantizationFamily = "gguf" | "mlx";

/** File families that count for the scores of a machine. MLX is only for Apple's GPUs. */
export function familiesOn(accelerator: Accelerator): readonly QuantizationFamily[] {
  return accelerator === DEFAULT_MODEL_ACCELERATOR ? ["gguf", "mlx"] : ["gguf"];
}

export interface Quantization {
  readonly name: string;
  readonly family: QuantizationFamily;
  readonly bits: number;
  /** Bits of attention, embedding and output, if experts have fewer. */
  readonly denseBits?: number;
  /** Loss of quality, in points of the score. */
  readonly penalty: number;
  readonly isOnLadder: boolean;
}

const gguf = (name: string, bits: number, penalty: number, isOnLadder = true): Quantization => ({
  name,
  family: "gguf",
  bits,
  penalty,
  isOnLadder,
});
const mlx = (name: string, bits: number, penalty: number, isOnLadder = true): Quantization => ({
  name,
  family: "mlx",
  bits,
  penalty,
  isOnLadder,
});

/** GGUF: as the quantizer of llama.cpp prints them for Llama-3.1-8B. MLX: groups of 64 with a 16-bit scale and bias. */
export const QUANTIZATIONS: readonly Quantization[] = [
  gguf("F32", 32, 0, false),
  gguf("BF16", 16, 0, false),
  gguf("F16", 16, 0, false),
  gguf("Q8_0", 8.5, 0),
  gguf("Q6_K", 6.56, 1),
  gguf("Q5_K_M", 5.7, 2),
  gguf("Q4_K_M", 4.89, 4),
  gguf("Q4_0", 4.66, 6, false),
  gguf("IQ4_XS", 4.46, 5, false),
  { ...gguf("MXFP4", 4.25, 0, false), denseBits: 8.5 },
  gguf("Q3_K_M", 4, 9),
  gguf("Q2_K", 3.16, 16),
  mlx("mlx-16bit", 16, 0, false),
  mlx("mlx-8bit", 8.5, 0),
  mlx("mlx-6bit", 6.5, 1),
  mlx("mlx-5bit", 5.5, 2, false),
  mlx("mlx-4bit", 4.5, 4),
  mlx("mlx-3bit", 3.5, 10),
];

/** Ignores case. Undefined for unknown names. */
export function quantizationOf(name: string): Quantization | undefined {
  const requested = name.toLowerCase();
  return QUANTIZATIONS.find((one) => one.name.toLowerCase() === requested);
}

/** Finds the quantization in a file name or source: `…/Qwen3-8B-Q4_K_M.gguf`, `…-4bit`. */
export function quantizationIn(source: string): string | undefined {
  const text = source.slice(-512).toLowerCase();
  const mlx = /[-_](\d{1,2})bit\b/.exec(text)?.[1];
  if (mlx !== undefined) return quantizationOf(`mlx-${mlx}bit`)?.name;
  return QUANTIZATIONS.find(({ name, family }) => family === "gguf" && text.includes(name.toLowerCase()))
    ?.name;
}

/** Usual bits of a weight in safetensors. */
export const SAFETENSORS_BITS = 16;
/** Fewer bits, by words in names. int8 precedes gptq, which may have either. */
const SAFETENSORS: readonly (readonly [RegExp, number])[] = [
  [/fp8|int8|w8a\d|8bit/, 8],
  [/awq|gptq|fp4|int4|w4a\d|4bit|bnb/, 4.25],
];

/** The bits follow from the size if it is known, else from the names, else from the training format. */
export function safetensorsOf(record: CatalogRecord, names: string, bytes?: number): Quantization {
  const text = names.toLowerCase();
  const trained = quantizationOf(record.quantization);
  const isTrainedInFewer = trained?.denseBits !== undefined;
  const named = SAFETENSORS.find(([pattern]) => pattern.test(text))?.[1];
  const sized = bytes === undefined || bytes <= 0 ? undefined : (bytes * 8) / (billions(record) * 1e9);
  if (isTrainedInFewer && named === undefined && sized === undefined) return trained;
  const bits = sized ?? named ?? SAFETENSORS_BITS;
  return gguf(`safetensors of ${bits} bits`, bits, bits < 6 ? 4 : 0, false);
}

export function quantizationNames(): string {
  return QUANTIZATIONS.map(({ name }) => name).join(", ");
}

/** Best first. A model that was trained in one quantization has only this one. */
export function ladderOf(
  { quantization }: CatalogRecord,
  family: QuantizationFamily,
): readonly Quantization[] {
  const own = quantizationOf(quantization);
  const isOnlyOne = own !== undefined && !own.isOnLadder && own.family === family;
  if (isOnlyOne) return [own];
  return QUANTIZATIONS.filter((one) => one.family === family && one.isOnLadder);
}

export interface FileSize {
  readonly bytes: number;
  /** published: from the file's repository. derived: parameters × bits per weight. */
  readonly basis: "published" | "derived";
}

export function fileSize(record: CatalogRecord, quantization: Quantization): FileSize {
  const published = record.files_gb[quantization.name];
  if (published !== undefined) return { bytes: Math.round(published * 1e9), basis: "published" };
  const shapes = parametersOf(record);
  const { bits, denseBits = bits } = quantization;
  const total = billions(record) * 1e9;
  const inExperts = shapes === undefined ? 0 : Math.min(total, shapes.experts);
  return { bytes: Math.ceil((inExperts * bits + (total - inExperts) * denseBits) / 8), basis: "derived" };
}

/** Bytes of the weights that one token reads: without inactive experts and without the input embedding. */
export function bytesPerToken(record: CatalogRecord, quantization: Quantization): number {
  const { bytes } = fileSize(record, quantization);
  const total = billions(record) * 1e9;
  const shapes = parametersOf(record);
  if (shapes === undefined) return bytes * Math.min(1, (record.active_parameters ?? total) / total);
  const { always, experts, expertsUsed, embedding } = shapes;
  const { bits, denseBits = bits } = quantization;
  const all = experts * bits + (always + embedding) * denseBits;
  return (bytes * (expertsUsed * bits + always * denseBits)) / all;
}
