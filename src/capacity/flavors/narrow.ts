/** The flavors of a Model that a service may use, and what their limits request. Pure. */
import { parseQuantity, type Quantity } from "../../api/fields/quantity.ts";
import { type Flavor, INSTANCE_TYPE_LABEL } from "../../api/flavors.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import type { RunsOn } from "../../api/inference-service/rollout.ts";
import type { Model } from "../../api/model.ts";

export interface NarrowedFlavors {
  /** In the order of the Model. */
  readonly flavors: readonly Flavor[];
  /** Names in spec.flavors of the service that the Model does not have. */
  readonly unknown: readonly string[];
}

type Narrowing = Pick<InferenceServiceSpec, "flavors">;

/** Undefined if the Model has no flavors and the service names none. */
export function flavorsOf(
  { flavors: names }: Narrowing,
  model: Pick<Model, "spec"> | undefined,
): NarrowedFlavors | undefined {
  const all = model?.spec.flavors ?? [];
  if (model === undefined || (all.length === 0 && names === undefined)) return undefined;
  const unknown = (names ?? []).filter((name) => all.every((one) => one.name !== name));
  const named = all.filter(({ name }) => names?.includes(name) ?? true);
  return { flavors: named.map(withInstanceType), unknown };
}

/** Nodes are chosen by labels only, so that schedulers, provisioners and comparisons of flavors know a single form. */
function withInstanceType(flavor: Flavor): Flavor {
  const { instanceType, ...params } = flavor.params ?? {};
  if (instanceType === undefined) return flavor;
  return {
    ...flavor,
    nodeSelector: { ...flavor.nodeSelector, [INSTANCE_TYPE_LABEL]: instanceType },
    params: Object.values(params).every((value) => value === undefined) ? undefined : params,
  };
}

/** Platform of a flavor: a hostSelector selects hosts, all other targets are those of pods. */
export function platformOfFlavor({ hostSelector }: Flavor): Exclude<RunsOn, "Auto"> {
  return hostSelector === undefined ? "Pods" : "Hosts";
}

type Vendor = "nvidia" | "amd" | "intel";

const VENDOR_OF_DOMAIN: Readonly<Record<string, Vendor>> = {
  "nvidia.com": "nvidia",
  "amd.com": "amd",
  "gpu.intel.com": "intel",
};

/** GPUs in the limits of a flavor. */
export interface FlavorGpus {
  readonly vendor: Vendor;
  readonly resource: string;
  readonly count: number;
}

export interface FlavorLimits {
  readonly gpus: FlavorGpus | undefined;
  /** All other resources, such as memory. */
  readonly others: Readonly<Record<string, Quantity>>;
}

/** The limits of a flavor, or the reason why they are invalid. */
export function limitsOf({ limits = {} }: Flavor): FlavorLimits | { readonly problem: string } {
  const isGpu = (name: string) => VENDOR_OF_DOMAIN[name.split("/")[0] ?? ""] !== undefined;
  const entries = Object.entries(limits);
  const [gpu, ...more] = entries.filter(([name]) => isGpu(name));
  if (gpu !== undefined && more.length > 0)
    return { problem: `limits has GPUs of two kinds: ${gpu[0]} and ${more[0]?.[0]}` };
  const others = Object.fromEntries(entries.filter(([name]) => !isGpu(name)));
  if (gpu === undefined) return { gpus: undefined, others };
  const [resource, quantity] = gpu;
  const count = parseQuantity(quantity) ?? 0;
  const vendor = VENDOR_OF_DOMAIN[resource.split("/")[0] ?? ""] ?? "nvidia";
  if (!Number.isInteger(count) || count < 1 || count > 64)
    return { problem: `${resource} is ${quantity}, and must be a whole number from 1 to 64` };
  return { gpus: { vendor, resource, count }, others };
}
