/**
 * The compute capability that each quantization of safetensors needs on NVIDIA's GPUs, by vLLM's table of supported hardware. Pure.
 */
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import type { KernelNeed } from "./fitness.ts";
import { engineQuantizations } from "./offload.ts";
import { formatOf } from "./resolve.ts";

/** The oldest GPUs of a compute capability, for messages. */
const GENERATIONS = {
  70: "Volta (V100)",
  75: "Turing (T4)",
  80: "Ampere (A100)",
} as const satisfies Record<KernelNeed["capability"], string>;

interface Kernel extends KernelNeed {
  readonly named: RegExp;
  /** The number format of weights that several methods produce. */
  readonly isFormat?: boolean;
}

/**
 * The first match applies. FP8 and NVFP4 run from Turing on with weights only: GPUs compute on FP8 from 8.9, on NVFP4 from 10.0.
 * vLLM's table begins with Volta.
 */
const KERNELS: readonly Kernel[] = [
  { name: "MXFP4", named: /mxfp4/i, capability: 80 },
  { name: "NVFP4", named: /nvfp4|^fp4$/i, capability: 75 },
  { name: "FP8", named: /fp8/i, capability: 75 },
  { name: "AWQ", named: /awq/i, capability: 75 },
  { name: "GPTQ with Marlin", named: /marlin/i, capability: 75 },
  { name: "GPTQ", named: /gptq/i, capability: 70 },
  { name: "bitsandbytes", named: /bitsandbytes|\bbnb\b/i, capability: 70 },
  { name: "INT8", named: /int8/i, capability: 75, isFormat: true },
  { name: "INT4", named: /int4|w4a16/i, capability: 75, isFormat: true },
];
const INTEGER_METHODS: readonly (string | undefined)[] = ["AWQ", "GPTQ", "GPTQ with Marlin", "bitsandbytes"];

/** By the engine's settings, else spec.quantization of the Model, else its files; the first that names a known one decides. */
export function kernelNeedOf(spec: InferenceServiceSpec, model: Model): KernelNeed | undefined {
  if (formatOf(model) !== "safetensors") return undefined;
  const named = [...engineQuantizations(spec), model.spec.quantization, model.status?.quantization];
  return named.map(kernelOf).find((kernel) => kernel !== undefined);
}

/** Why a GPU of this architecture does not run it; undefined if it does, or if the architecture is unknown. */
export function kernelMismatch(need: KernelNeed | undefined, arch: string | undefined): string | undefined {
  const capability = Number(/^sm_(\d{2,3})$/.exec(arch ?? "")?.[1]);
  if (need === undefined || !(capability < need.capability)) return undefined;
  const least = (need.capability / 10).toFixed(1);
  return `GPU ${arch} is older than compute capability ${least}, which ${need.name} needs: ${GENERATIONS[need.capability]} or later`;
}

/** Contradiction between spec.quantization and the files. Names that are not in the table contradict nothing. */
export function quantizationContradiction(model: Pick<Model, "spec" | "status">): string | undefined {
  const { quantization: stated } = model.spec;
  const { quantization: found } = model.status ?? {};
  const [ours, theirs] = [kernelOf(stated), kernelOf(found)];
  if (ours === undefined || theirs === undefined || isSame(ours, theirs)) return undefined;
  return `spec.quantization is ${stated}, but the files are ${found}; nodes are chosen for ${ours.name}`;
}

function isSame(one: Kernel, other: Kernel): boolean {
  const [format, method] = one.isFormat === true ? [one, other] : [other, one];
  return one.name === other.name || (format.isFormat === true && INTEGER_METHODS.includes(method.name));
}

function kernelOf(quantization: string | undefined): Kernel | undefined {
  return KERNELS.find(({ named }) => quantization !== undefined && named.test(quantization));
}
