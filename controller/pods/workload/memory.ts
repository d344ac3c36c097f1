/** The memory request of a pod whose service names none. It uses the same estimate as placement on hosts. Pure. */
import type { EngineSettings } from "../../../src/api/engine-settings.ts";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import type { Accelerator } from "../../../src/api/fields/hardware.ts";
import type { Runtime } from "../../../src/api/fields/runtimes.ts";
import type { Model } from "../../../src/api/model.ts";
import { isUnsized } from "../../../src/capacity/offload.ts";
import type { MemoryClaim } from "../../../src/engines/contract/claims.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import type { GgufSummary } from "../../../src/models/gguf/summary.ts";
import type { WorkloadInput } from "./contract.ts";
import type { GPURequest } from "./gpus.ts";

const MIB = 2 ** 20;

/** A quantity; undefined if the runtime has no estimator, or too little is known about the weights. */
export function memoryRequest(
  input: WorkloadInput,
  settings: EngineSettings,
  { count }: GPURequest,
): string | undefined {
  const claim = claimInPod(input, settings, "cpu", input.service.spec.group?.size);
  if (claim === undefined) return undefined;
  const bytes =
    count === 0 ? claim.claimBytes : hostMemoryBytes(claim, settings, input.model.status?.gguf?.layerCount);
  return `${Math.ceil(bytes / MIB)}Mi`;
}

/**
 * Memory of the engine in one pod, on the host and on GPUs. Undefined in the same cases as `memoryRequest`. For a group, the
 * layers are assumed to be equally large, and every pod to need as much for computing as the only pod of a service.
 */
export function claimInPod(
  {
    model,
    draft,
    projector,
    adapters = [],
    runtime,
  }: Pick<WorkloadInput, "model" | "draft" | "projector" | "adapters" | "runtime">,
  settings: EngineSettings,
  accelerator: Accelerator,
  groupSize = 1,
): MemoryClaim | undefined {
  const claims = engineDescription(runtime)?.host?.claims;
  const summary = summaryOf(model);
  if (claims === undefined || summary === undefined) return undefined;
  const { sizeBytes, weightsBytes } = model.status ?? {};
  const hasProjector =
    model.spec.mmproj !== undefined && sizeBytes !== undefined && weightsBytes !== undefined;
  const files = {
    projectorSizeBytes:
      projector?.status?.sizeBytes ?? (hasProjector ? Math.max(0, sizeBytes - weightsBytes) : undefined),
    draft: draft && summaryOf(draft),
    loraSizeBytes: adapters.reduce((sum, { status }) => sum + (status?.sizeBytes ?? 0), 0),
  };
  try {
    return shareOf(claims.estimate(summary, { ...settings, ...files }, accelerator), groupSize);
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    return undefined;
  }
}

/** Weights and the KV cache are divided by layers. */
function shareOf(claim: MemoryClaim, size: number): MemoryClaim {
  const { claimBytes, weightsBytes, kvBytes } = claim;
  const ofOthers = (bytes: number) => Math.floor(bytes * (1 - 1 / size));
  return {
    ...claim,
    claimBytes: claimBytes - ofOthers(weightsBytes) - ofOthers(kvBytes),
    weightsBytes: weightsBytes - ofOthers(weightsBytes),
    kvBytes: kvBytes - ofOthers(kvBytes),
  };
}

/** Minimum bytes on the GPUs; undefined if it is unknown how much stays in host memory. */
export function claimOnGPUs(
  claim: MemoryClaim,
  runtime: Runtime,
  settings: EngineSettings,
  layerCount = 0,
): number | undefined {
  const { gpuLayers = -1, moeCPULayers = 0 } = settings;
  if (isUnsized(settings) || (layerCount === 0 && (gpuLayers > 0 || moeCPULayers > 0))) return undefined;
  // Only the weights of a generic program are known, so all of its overhead may be on the GPUs.
  if (runtime === "generic") return claim.claimBytes;
  return Math.max(0, claim.claimBytes - hostMemoryBytes(claim, settings, layerCount));
}

/** Bytes in host memory: the process, its caches and outputs, and layers that are not on the GPUs. */
function hostMemoryBytes(claim: MemoryClaim, settings: EngineSettings, layerCount = 0): number {
  const { weightsBytes, kvBytes, outputBytes, promptCacheBytes, loraBytes, overheadBytes } = claim;
  const { gpuLayers = -1, moeCPUOffload, moeCPULayers = 0, noKvOffload } = settings;
  const partOf = (layers: number) => (layerCount > 0 ? Math.min(1, Math.max(0, layers / layerCount)) : 0);
  const off = gpuLayers < 0 ? 0 : layerCount === 0 ? 1 : partOf(layerCount - gpuLayers);
  // Experts are most of the weights of a mixture-of-experts model.
  const experts = moeCPUOffload === true ? 1 : partOf(moeCPULayers);
  // Adapters are in the same memory as the weights that they change.
  const weights = Math.max(off, experts) * (weightsBytes + loraBytes);
  const kv = (noKvOffload === true ? 1 : off) * kvBytes;
  return weights + kv + outputBytes + promptCacheBytes + overheadBytes;
}

/** If the size of the tensors is unknown, the size of the file is used, which is never smaller. */
function summaryOf({ status }: Model): GgufSummary | undefined {
  const weightsBytes = status?.weightsBytes ?? status?.sizeBytes;
  return weightsBytes === undefined ? undefined : { ...status?.gguf, weightsBytes };
}
