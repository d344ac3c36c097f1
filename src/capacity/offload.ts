/** Settings by which a part of a model stays in host memory. Pure. */
import type { EngineSettings } from "../api/engine-settings.ts";
import type { InferenceServiceSpec } from "../api/inference-service/index.ts";

/** Arguments that keep tensors in host memory or load weights in fewer bits, which the estimate does not cover. */
const LESS_BY_ARGUMENT =
  /^(-ot|-cmoe|-ncmoe|-ngl|-nkvo)$|offload|override-tensor|cpu-moe|gpu-layers|quantiz|load-in-/;

/**
 * True if the GPUs hold less than the files and the context need, because a part stays in host memory or the engine loads the
 * weights in fewer bits.
 */
export function isPartlyOffloaded(spec: InferenceServiceSpec, settings: EngineSettings): boolean {
  const { gpuLayers = -1, moeCPUOffload, moeCPULayers = 0, noKvOffload } = settings;
  const { vllmConfig, sglangConfig, personaPlexConfig } = spec;
  return (
    isUnsized(settings) ||
    gpuLayers >= 0 ||
    moeCPULayers > 0 ||
    [moeCPUOffload, noKvOffload, personaPlexConfig?.cpuOffload, personaPlexConfig?.quantize4Bit].includes(
      true,
    ) ||
    [vllmConfig, sglangConfig].some((config) => (config?.cpuOffloadGB ?? 0) > 0) ||
    engineQuantizations(spec).length > 0
  );
}

/** Quantizations that the engine of the service loads the weights in. */
export function engineQuantizations({
  vllmConfig,
  sglangConfig,
  tgiConfig,
}: InferenceServiceSpec): readonly string[] {
  return [vllmConfig?.quantization, sglangConfig?.quantization, tgiConfig?.quantize].filter(
    (one) => one !== undefined,
  );
}

/** True if it is unknown how much of the model stays in host memory. */
export function isUnsized({ tensorOverrides = [], extraArgs = [] }: EngineSettings): boolean {
  return tensorOverrides.length > 0 || extraArgs.some((argument) => LESS_BY_ARGUMENT.test(argument));
}
