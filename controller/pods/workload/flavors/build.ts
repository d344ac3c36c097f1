/** Builds what a stage of flavors puts on a pod: node affinity, limits, and the template of its ResourceClaim. Pure. */

import { canonicalQuantity } from "../../../../src/api/fields/quantity.ts";
import type { Flavor } from "../../../../src/api/flavors.ts";
import type { InferenceService } from "../../../../src/api/inference-service/index.ts";
import type { Model } from "../../../../src/api/model.ts";
import { serviceName } from "../../../../src/api/names.ts";
import { MANAGED_BY, ownedObjectRef, ownerLabels } from "../../../../src/api/owned.ts";
import { argumentsOfFlavor, withArguments } from "../../../../src/capacity/flavors/apply.ts";
import { type FlavorLimits, limitsOf } from "../../../../src/capacity/flavors/narrow.ts";
import type { InheritedArguments } from "../../../../src/engines/contract/arguments.ts";
import type { ResourceClaimTemplate } from "../../../../src/kube/workload-objects.ts";
import { canonicalJson, hash } from "../../../../src/util/hash.ts";
import type { FlavorStage } from "../../../frame/service/path.ts";
import type { PodFlavors } from "../contract.ts";

/** Name of the claim within the pod, and of its one request. An allocation names the flavor as `flavor/NAME`. */
export const FLAVOR_CLAIM = "flavor";

export interface FlavoredInput {
  readonly service: InferenceService;
  readonly model: Model;
  readonly flavors: PodFlavors;
  /** Absent unless the stage is by devices. */
  readonly claimTemplate: ResourceClaimTemplate | undefined;
  /** Arguments of the flavor, in front of those of the service. */
  readonly inherited: readonly InheritedArguments[];
}

/** The service and its Model with the settings of a stage. Settings of the service override those of flavors. */
export function withStage(
  service: InferenceService,
  model: Model,
  stage: FlavorStage,
  /** Engine of the BackendRuntime, if the service names one. */
  engine?: string,
): FlavoredInput {
  const [first] = stage.flavors;
  const limits = checkedLimits(first);
  const claimTemplate = stage.by === "devices" ? claimTemplateOf(service, stage) : undefined;
  const { image, tensorParallelSize: tensor, pipelineParallelSize: pipeline } = first.params ?? {};
  const { flavors: _names, ...spec } = service.spec;
  const { flavors: _all, ...modelSpec } = model.spec;
  const argumentsOf = withArguments(spec, first.params, engine);
  return {
    service: {
      ...service,
      spec: {
        ...spec,
        image: spec.image ?? image,
        ...argumentsOf,
        placement: { ...spec.placement, on: "Pods" },
      },
    },
    model: { ...model, spec: { ...modelSpec, hardware: hardwareOf(model, limits, claimTemplate) } },
    flavors: {
      ...nodesOf(stage),
      limits: Object.fromEntries(
        Object.entries(limits.others).map(([name, quantity]) => [name, canonicalQuantity(quantity)]),
      ),
      parallel: { tensor, pipeline },
    },
    claimTemplate,
    inherited: [argumentsOfFlavor(spec, argumentsOf, first)],
  };
}

/** Excluded flavors, whose limits are invalid, are never taken. */
function checkedLimits(flavor: Flavor): FlavorLimits {
  const limits = limitsOf(flavor);
  return "problem" in limits ? { gpus: undefined, others: {} } : limits;
}

const ACCELERATORS = { nvidia: "cuda", amd: "rocm", intel: "intel" } as const;
const RESOURCES = { nvidia: "nvidia.com/gpu", amd: "amd.com/gpu", intel: "gpu.intel.com/i915" } as const;

/** Flavors without GPUs keep those of spec.hardware. */
function hardwareOf(
  { spec: { hardware } }: Model,
  { gpus }: FlavorLimits,
  claimTemplate: ResourceClaimTemplate | undefined,
): Model["spec"]["hardware"] {
  if (gpus === undefined && claimTemplate === undefined) return hardware;
  const { vendor = hardware?.gpu?.vendor ?? "nvidia", count = 1, resource } = gpus ?? {};
  const gpu = hardware?.gpu;
  const isVulkan = hardware?.accelerator === "vulkan" || (vendor === "amd" && gpu?.runtime === "vulkan");
  const claims = claimTemplate && [
    { name: FLAVOR_CLAIM, resourceClaimTemplateName: claimTemplate.metadata.name },
  ];
  return {
    ...hardware,
    accelerator: isVulkan ? "vulkan" : ACCELERATORS[vendor],
    gpu: {
      ...gpu,
      enabled: true,
      vendor,
      count,
      resourceName: claims !== undefined || resource === RESOURCES[vendor] ? undefined : resource,
      resourceClaims: claims,
    },
  };
}

/** With one label, the scheduler ranks by preferences. With several, only the order of the terms gives Karpenter the preference. */
function nodesOf({ by, flavors }: FlavorStage): Pick<PodFlavors, "nodeSelector" | "terms" | "preferred"> {
  const [first] = flavors;
  if (by !== "labels") return { nodeSelector: first.nodeSelector };
  const keys = [...new Set(flavors.flatMap(({ nodeSelector = {} }) => Object.keys(nodeSelector)))];
  const differing = keys.filter((key) =>
    flavors.some(({ nodeSelector }) => nodeSelector?.[key] !== first.nodeSelector?.[key]),
  );
  const isIn = (key: string, values: readonly string[]) => ({ key, operator: "In", values });
  const [label] = differing;
  const values =
    label === undefined ? [] : flavors.flatMap(({ nodeSelector }) => nodeSelector?.[label] ?? []);
  if (label !== undefined && differing.length === 1 && values.length === flavors.length) {
    const common = keys
      .filter((key) => key !== label)
      .map((key) => isIn(key, [first.nodeSelector?.[key] ?? ""]));
    const distinct = [...new Set(values)];
    return {
      terms: [{ matchExpressions: [...common, isIn(label, distinct)] }],
      // The last one needs no preference, because all nodes that are left have its label.
      preferred: distinct.slice(0, -1).map((value, index) => ({
        weight: Math.max(1, Math.floor(100 / 2 ** index)),
        preference: { matchExpressions: [isIn(label, [value])] },
      })),
    };
  }
  return {
    terms: flavors.map(({ nodeSelector = {} }) => ({
      matchExpressions: Object.entries(nodeSelector).map(([key, value]) => isIn(key, [value])),
    })),
  };
}

/**
 * The template of the claim of each pod: the driver's devices by flavor, the first available one counts. Its name has a digest,
 * because a template cannot be changed.
 */
export function claimTemplateOf(service: InferenceService, { flavors }: FlavorStage): ResourceClaimTemplate {
  const spec = {
    spec: {
      devices: {
        requests: [
          {
            name: FLAVOR_CLAIM,
            firstAvailable: flavors.map((flavor) => ({
              name: flavor.name,
              deviceClassName: flavor.deviceClass ?? "",
              allocationMode: "ExactCount" as const,
              count: checkedLimits(flavor).gpus?.count ?? 1,
            })),
          },
        ],
      },
    },
  };
  const name = `${serviceName(service.metadata.name)}-flavors-${hash(canonicalJson(spec), 8)}`;
  return {
    apiVersion: "resource.k8s.io/v1",
    kind: "ResourceClaimTemplate",
    metadata: { ...ownedObjectRef(service, name), labels: { ...ownerLabels(service), ...MANAGED_BY } },
    spec,
  };
}
