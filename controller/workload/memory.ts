/** Host memory that a pod asks for where the service names none: the claim that hosts are planned with. Pure. */
import type { EngineSettings } from "../../src/api/engine-settings.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import type { Accelerator } from "../../src/api/fields/hardware.ts";
import type { Runtime } from "../../src/api/fields/runtimes.ts";
import type { InferenceServiceSpec } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import type { MemoryClaim } from "../../src/engines/contract/claims.ts";
import { engineDescription } from "../../src/engines/registry.ts";
import type { GgufSummary } from "../../src/models/gguf/summary.ts";
import type { WorkloadInput } from "./contract.ts";
import type { GPURequest } from "./gpus.ts";

const MIB = 2 ** 20;

/** Quantity. Undefined: the runtime has no estimator, or too little is known of the weights. */
export function memoryRequest(
  input: WorkloadInput,
  settings: EngineSettings,
  { count }: GPURequest,
): string | undefined {
  const claim = claimInPod(input, settings, "cpu");
  if (claim === undefined) return undefined;
  const bytes =
    count === 0 ? claim.claimBytes : besideGPUs(claim, settings, input.model.status?.gguf?.layerCount);
  return `${Math.ceil(bytes / MIB)}Mi`;
}

/** All memory of the engine in one pod, wherever it is. Undefined as above. */
export function claimInPod(
  { model, draft, adapters = [], runtime }: Pick<WorkloadInput, "model" | "draft" | "adapters" | "runtime">,
  settings: EngineSettings,
  accelerator: Accelerator,
): MemoryClaim | undefined {
  const claims = engineDescription(runtime)?.host?.claims;
  const summary = summaryOf(model);
  if (claims === undefined || summary === undefined) return undefined;
  const { sizeBytes, weightsBytes } = model.status ?? {};
  const hasProjector =
    model.spec.mmproj !== undefined && sizeBytes !== undefined && weightsBytes !== undefined;
  const files = {
    projectorSizeBytes: hasProjector ? Math.max(0, sizeBytes - weightsBytes) : undefined,
    draft: draft && summaryOf(draft),
    loraSizeBytes: adapters.reduce((sum, { status }) => sum + (status?.sizeBytes ?? 0), 0),
  };
  try {
    return claims.estimate(summary, { ...settings, ...files }, accelerator);
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return undefined;
  }
}

/** Command lines that keep tensors in host memory, or load weights in fewer bits, in ways that no estimate knows. */
const LESS_BY_ARGUMENT =
  /^(-ot|-cmoe|-ncmoe|-ngl|-nkvo)$|offload|override-tensor|cpu-moe|gpu-layers|quantiz|load-in-/;

/**
 * Whether GPUs hold less than what the files have and a context needs: a part stays in host memory, or the engine loads
 * the weights in fewer bits.
 */
export function isPartlyOffloaded(spec: InferenceServiceSpec, settings: EngineSettings): boolean {
  const { gpuLayers = -1, moeCPUOffload, moeCPULayers = 0, noKvOffload } = settings;
  const { vllmConfig, sglangConfig, tgiConfig, personaPlexConfig } = spec;
  return (
    isUnsized(settings) ||
    gpuLayers >= 0 ||
    moeCPULayers > 0 ||
    [moeCPUOffload, noKvOffload, personaPlexConfig?.cpuOffload, personaPlexConfig?.quantize4Bit].includes(
      true,
    ) ||
    [vllmConfig, sglangConfig].some((config) => (config?.cpuOffloadGB ?? 0) > 0) ||
    [vllmConfig?.quantization, sglangConfig?.quantization, tgiConfig?.quantize].some(
      (one) => one !== undefined,
    )
  );
}

function isUnsized({ tensorOverrides = [], extraArgs = [] }: EngineSettings): boolean {
  return tensorOverrides.length > 0 || extraArgs.some((argument) => LESS_BY_ARGUMENT.test(argument));
}

/** What the GPUs hold of it at least; undefined where nothing says how much stays in host memory. */
export function claimOnGPUs(
  claim: MemoryClaim,
  runtime: Runtime,
  settings: EngineSettings,
  layerCount = 0,
): number | undefined {
  const { gpuLayers = -1, moeCPULayers = 0 } = settings;
  if (isUnsized(settings) || (layerCount === 0 && (gpuLayers > 0 || moeCPULayers > 0))) return undefined;
  // Of a program we know the weights alone: all of its margin may be on the GPUs.
  if (runtime === "generic") return claim.claimBytes;
  return Math.max(0, claim.claimBytes - besideGPUs(claim, settings, layerCount));
}

/** What stays in the host's memory: the process, its caches and outputs, and layers that are kept off the GPUs. */
function besideGPUs(claim: MemoryClaim, settings: EngineSettings, layerCount = 0): number {
  const { weightsBytes, kvBytes, outputBytes, promptCacheBytes, loraBytes, overheadBytes } = claim;
  const { gpuLayers = -1, moeCPUOffload, moeCPULayers = 0, noKvOffload } = settings;
  const partOf = (layers: number) => (layerCount > 0 ? Math.min(1, Math.max(0, layers / layerCount)) : 0);
  const off = gpuLayers < 0 ? 0 : layerCount === 0 ? 1 : partOf(layerCount - gpuLayers);
  // Experts are most of such a model.
  const experts = moeCPUOffload === true ? 1 : partOf(moeCPULayers);
  // Adapters are where the weights are that they change.
  const weights = Math.max(off, experts) * (weightsBytes + loraBytes);
  const kv = (noKvOffload === true ? 1 : off) * kvBytes;
  return weights + kv + outputBytes + promptCacheBytes + overheadBytes;
}

/** The file's bytes stand in for those of its tensors: never less. */
function summaryOf({ status }: Model): GgufSummary | undefined {
  const weightsBytes = status?.weightsBytes ?? status?.sizeBytes;
  return weightsBytes === undefined ? undefined : { ...status?.gguf, weightsBytes };
}
