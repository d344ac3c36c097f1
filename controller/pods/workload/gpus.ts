/** The GPUs of a pod: resource name, count, taints to tolerate, and how the model is split over the GPUs. Pure. */
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { type Accelerator, DEFAULT_MODEL_ACCELERATOR } from "../../../src/api/fields/hardware.ts";
import { parseQuantity } from "../../../src/api/fields/quantity.ts";
import type { InferenceServiceSpec } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import type { PodGPUs } from "../../../src/engines/contract/pod.ts";

type Vendor = "nvidia" | "amd" | "intel";

const RESOURCES: Readonly<Record<Vendor, string>> = {
  nvidia: "nvidia.com/gpu",
  amd: "amd.com/gpu",
  intel: "gpu.intel.com/i915",
};
const VENDOR_OF: Partial<Readonly<Record<Accelerator, Vendor>>> = {
  cuda: "nvidia",
  rocm: "amd",
  intel: "intel",
};
const ACCELERATOR_OF: Readonly<Record<Vendor, Accelerator>> = { nvidia: "cuda", amd: "rocm", intel: "intel" };
const QUALIFIED = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?\/[a-z0-9]([a-z0-9._-]*[a-z0-9])?$/;
const MIG = /^[0-9]+g\.[0-9]+gb$/;
const MIG_RESOURCE = /^nvidia\.com\/mig-(.*)$/;
const GIB = 2 ** 30;

export interface GPURequest extends PodGPUs {
  readonly accelerator: Accelerator;
  readonly vendor: Vendor;
  /** Requests of the container by resource name; empty if it uses claims instead. */
  readonly resources: Readonly<Record<string, number>>;
  /** Names of spec.resourceClaims of the pod that the container uses. */
  readonly claims: readonly string[];
  /** Keys of taints to tolerate. */
  readonly taints: readonly string[];
  /** Memory limit in GiB, which only NVIDIA's MPS enforces. */
  readonly memoryLimitGiB?: number;
  /** MiB of memory that a whole GPU must have, on nodes that report it by a label. */
  readonly memoryMiB?: number;
}

/** Throws `GPURequestInvalid`. */
export function gpusOf(model: Model, spec: InferenceServiceSpec): GPURequest {
  const { gpu } = model.spec.hardware ?? {};
  const accelerator = podAccelerator(model, spec);
  const vendor = VENDOR_OF[accelerator] ?? gpu?.vendor ?? "nvidia";
  const { mode = "exclusive", profile, memoryLimitGiB } = spec.resources?.gpuSharing ?? {};
  const claims = accelerator === "cpu" ? [] : (gpu?.resourceClaims ?? []).map(({ name }) => name);
  const count = accelerator === "cpu" ? 0 : gpuCount(model, spec);
  const resource = resourceName(gpu?.resourceName, { vendor, mode, profile });
  checkShared({ count, mode, resource });
  return {
    accelerator,
    vendor,
    count,
    resources: count === 0 || claims.length > 0 ? {} : { [resource]: count },
    claims,
    taints: count === 0 ? [] : taintsOf(gpu?.tolerationKey, RESOURCES[vendor], resource),
    ...splitOf(model, count),
    ...(count > 0 && resource === RESOURCES.nvidia ? wholeMemory(gpu?.memory) : {}),
    ...(mode === "shared" ? sharedMemory(memoryLimitGiB, gpu?.memory) : {}),
  };
}

/** The accelerator of a pod. The default exists only on hosts; for a pod the requested GPU decides. */
export function podAccelerator(
  { spec: { hardware } }: Model,
  { resources }: InferenceServiceSpec,
): Accelerator {
  const { accelerator = DEFAULT_MODEL_ACCELERATOR, gpu } = hardware ?? {};
  if (accelerator === "cpu") return "cpu";
  const vendor = gpu?.vendor ?? "nvidia";
  const requestsVulkan = gpu?.runtime === "vulkan";
  if (accelerator === DEFAULT_MODEL_ACCELERATOR) {
    if (!requestsGPU(gpu, resources)) return "cpu";
    return vendor === "amd" && requestsVulkan ? "vulkan" : ACCELERATOR_OF[vendor];
  }
  const fixed = VENDOR_OF[accelerator];
  // nvidia is the default of the field, so only another vendor is known to be intended.
  if (fixed !== undefined && vendor !== "nvidia" && vendor !== fixed)
    throw invalid(
      `accelerator ${accelerator} runs on GPUs of ${fixed}, and hardware.gpu.vendor is ${vendor}`,
    );
  return accelerator === "rocm" && requestsVulkan ? "vulkan" : accelerator;
}

type GPU = NonNullable<Model["spec"]["hardware"]>["gpu"];

function requestsGPU(gpu: GPU, resources: InferenceServiceSpec["resources"]): boolean {
  const count = resources?.gpu ?? gpu?.count ?? 0;
  return count > 0 || gpu?.enabled === true || (gpu?.resourceClaims ?? []).length > 0;
}

/** The default is one GPU, because the image of an accelerator needs at least one. */
function gpuCount({ spec: { hardware } }: Model, { resources }: InferenceServiceSpec): number {
  const { gpu } = hardware ?? {};
  return resources?.gpu ?? gpu?.count ?? (gpu?.enabled === false ? 0 : 1);
}

interface ResourceRequest {
  readonly vendor: Vendor;
  readonly mode: "exclusive" | "shared" | "partitioned";
  readonly profile: string | undefined;
}

function resourceName(named: string | undefined, { vendor, mode, profile }: ResourceRequest): string {
  if (mode === "partitioned") {
    if (vendor !== "nvidia")
      throw invalid(`resources.gpuSharing.mode partitioned is NVIDIA's MIG, and the GPU is of ${vendor}`);
    return `nvidia.com/mig-${checkProfile(profile ?? "")}`;
  }
  if (named === undefined) return RESOURCES[vendor];
  if (!QUALIFIED.test(named)) throw invalid(`hardware.gpu.resourceName ${named} is no name of a resource`);
  const part = MIG_RESOURCE.exec(named)?.[1];
  if (part !== undefined) checkProfile(part.replace(/\.(shared|me|shared-me)$/, ""));
  return named;
}

function checkProfile(profile: string): string {
  if (!MIG.test(profile)) throw invalid(`${profile || "an empty text"} is no MIG profile such as 1g.10gb`);
  return profile;
}

/** Device plugins may assign several shares of the same GPU, so more than one share is rejected. */
function checkShared({ count, mode, resource }: { count: number; mode: string; resource: string }): void {
  if (count > 1 && (mode !== "exclusive" || MIG_RESOURCE.test(resource)))
    throw invalid(`${count} GPUs cannot be ${mode === "shared" ? "shared" : "MIG partitions"}: ask for one`);
}

function taintsOf(key: string | undefined, vendors: string, resource: string): string[] {
  return key === undefined ? [...new Set([vendors, resource])] : [key];
}

/** Throws unless the ranges are consecutive, one for each GPU, and cover all layers. */
function splitOf({ spec, status }: Model, count: number): Pick<PodGPUs, "strategy" | "layers"> {
  const { strategy, layerSplit = [] } = spec.hardware?.gpu?.sharding ?? {};
  if (count <= 1) return {};
  if (layerSplit.length === 0) return strategy === undefined ? {} : { strategy };
  const field = "hardware.gpu.sharding.layerSplit";
  if (layerSplit.length !== count)
    throw invalid(`${field} has ${layerSplit.length} ranges for ${count} GPUs`);
  const ranges = layerSplit.map((text) => {
    const [, first, last] = /^([0-9]{1,4})-([0-9]{1,4})$/.exec(text) ?? [];
    if (first === undefined || last === undefined || Number(last) < Number(first))
      throw invalid(`${field}: ${text} is no range such as 0-15`);
    return { first: Number(first), last: Number(last) };
  });
  let next = 0;
  for (const { first, last } of ranges) {
    if (first !== next) throw invalid(`${field}: a range starts at layer ${first} instead of ${next}`);
    next = last + 1;
  }
  const layers = status?.gguf?.layerCount;
  if (layers !== undefined && next !== layers)
    throw invalid(`${field} covers layers 0 to ${next - 1}, and the model has ${layers}`);
  return { strategy, layers: ranges.map(({ first, last }) => last - first + 1) };
}

function sharedMemory(
  memoryLimitGiB: number | undefined,
  gpuMemory: string | number | undefined,
): Pick<GPURequest, "memoryLimitGiB" | "memoryShare"> {
  if (memoryLimitGiB === undefined) return {};
  const bytes = gpuMemory === undefined ? undefined : parseQuantity(gpuMemory);
  if (bytes === undefined || bytes === 0) return { memoryLimitGiB };
  const share = (memoryLimitGiB * GIB) / bytes;
  if (share > 1)
    throw invalid(`resources.gpuSharing.memoryLimitGiB ${memoryLimitGiB} is more than hardware.gpu.memory`);
  return { memoryLimitGiB, memoryShare: Math.floor(share * 100) / 100 };
}

/** Share of a GPU's nominal memory that programs can use. */
const USABLE_SHARE = 0.9;

function wholeMemory(quantity: string | number | undefined): Pick<GPURequest, "memoryMiB"> {
  const bytes = quantity === undefined ? 0 : (parseQuantity(quantity) ?? 0);
  return bytes > 0 ? { memoryMiB: Math.floor((bytes * USABLE_SHARE) / 2 ** 20) } : {};
}

function invalid(message: string): MetalbridgeError {
  return new MetalbridgeError("GPURequestInvalid", message);
}
