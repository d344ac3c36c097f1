/** Settings of a service that exclude a flavor. Pure. */
import { parseQuantity, type Quantity } from "../../api/fields/quantity.ts";
import type { Flavor } from "../../api/flavors.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import { limitsOf, platformOfFlavor } from "./narrow.ts";

/** The reason why a service can never use a flavor; undefined if there is none. */
export function contradictionOf(spec: InferenceServiceSpec, flavor: Flavor): string | undefined {
  const { on } = spec.placement;
  if (spec.group !== undefined && platformOfFlavor(flavor) === "Hosts")
    return "spec.group of the service needs pods, and hosts do not form groups";
  if (on !== undefined && on !== "Auto" && on !== platformOfFlavor(flavor))
    return `spec.placement.on of the service is ${on}`;
  const limits = limitsOf(flavor);
  if ("problem" in limits) return limits.problem;
  return (
    gpuContradiction(spec, limits.gpus?.count) ??
    requestContradiction(spec, limits.others) ??
    labelContradiction(spec, flavor)
  );
}

function gpuContradiction(
  { resources }: InferenceServiceSpec,
  count: number | undefined,
): string | undefined {
  if (resources?.gpu === undefined || count === undefined || resources.gpu === count) return undefined;
  return `its limits request ${count} of the GPUs, and spec.resources.gpu of the service ${resources.gpu}`;
}

/** Kubernetes rejects a pod that requests more than its limit. */
function requestContradiction(
  { resources = {} }: InferenceServiceSpec,
  limits: Readonly<Record<string, Quantity>>,
): string | undefined {
  const requests: Readonly<Record<string, Quantity | undefined>> = {
    cpu: resources.cpu,
    memory: resources.hostMemory ?? resources.memory,
    "ephemeral-storage": resources.ephemeralStorage,
  };
  const over = Object.entries(requests).find(([name, request]) => {
    const limit = limits[name];
    if (request === undefined || limit === undefined) return false;
    return (parseQuantity(request) ?? 0) > (parseQuantity(limit) ?? Number.POSITIVE_INFINITY);
  });
  if (over === undefined) return undefined;
  const [name, request] = over;
  return `its limit of ${name} is ${limits[name]}, and spec.resources of the service requests ${request}`;
}

function labelContradiction(
  { nodeSelector = {} }: InferenceServiceSpec,
  { nodeSelector: required = {} }: Flavor,
): string | undefined {
  const key = Object.keys(required).find(
    (one) => nodeSelector[one] !== undefined && nodeSelector[one] !== required[one],
  );
  if (key === undefined) return undefined;
  return `it needs nodes with ${key}=${required[key]}, and spec.nodeSelector of the service ${key}=${nodeSelector[key]}`;
}
