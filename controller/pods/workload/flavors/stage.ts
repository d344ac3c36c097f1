/** Groups flavors that one pod template can offer together, and decides by which mechanism. Pure. */

import type { BackendRuntimeSpec } from "../../../../src/api/backend-runtime.ts";
import type { Flavor } from "../../../../src/api/flavors.ts";
import type { InferenceServiceSpec } from "../../../../src/api/inference-service/index.ts";
import type { Model } from "../../../../src/api/model.ts";
import { limitsOf, platformOfFlavor } from "../../../../src/capacity/flavors/narrow.ts";
import { canonicalJson } from "../../../../src/util/hash.ts";
import type { FlavorStage } from "../../../frame/service/path.ts";
import { hasSeveralTerms } from "../pod.ts";

export interface StageContext {
  /** Names of the DeviceClasses of the cluster. */
  readonly deviceClasses: ReadonlySet<string>;
  /** True if the arguments of the engine do not depend on the number of GPUs. They are fixed before the scheduler chooses. */
  readonly countsMayDiffer: boolean;
  /** True if all pods of a group must have the same flavor, so that the scheduler chooses for none of them. */
  readonly isGroup: boolean;
  /** True if the template has several required terms for other reasons. Then it must have no preferences. */
  readonly hasAlternatives: boolean;
}

const COUNT = /\{\{ *\.?(tensor|pipeline)ParallelSize *\}\}/i;

/**
 * Only runtime generic has arguments that are the same for any number of GPUs, unless placeholders hold the number, in the service
 * or in any configuration of its BackendRuntime.
 */
export function stageContext(
  { runtime, command, args, env, group, affinity }: InferenceServiceSpec,
  hardware: Model["spec"]["hardware"],
  deviceClasses: ReadonlySet<string>,
  /** The content of the BackendRuntime that the service uses. */
  backend: BackendRuntimeSpec | undefined,
): StageContext {
  const { engine = runtime } = backend ?? {};
  const texts = canonicalJson([
    ...[command, args, env],
    ...[backend?.command, backend?.args, backend?.env, backend?.recommendedConfigs],
  ]);
  return {
    deviceClasses,
    countsMayDiffer: engine === "generic" && !COUNT.test(texts),
    isGroup: group !== undefined,
    hasAlternatives: hardware?.gpu?.memory !== undefined || hasSeveralTerms(affinity),
  };
}

/**
 * The flavors around `taken` that differ only in labels, or only in device and count. The stage does not depend on which of them
 * is taken, so that the template stays the same. `flavors`: those that the service may use, in order.
 */
export function stageOf(flavors: readonly Flavor[], taken: Flavor, context: StageContext): FlavorStage {
  const key = stageKey(taken, context);
  const at = flavors.findIndex(({ name }) => name === taken.name);
  const isOther = (one: Flavor) => stageKey(one, context) !== key;
  const first = flavors.slice(0, at).findLastIndex(isOther) + 1;
  const after = flavors.slice(at + 1).findIndex(isOther);
  const [head = taken, ...tail] = flavors.slice(first, after === -1 ? undefined : at + 1 + after);
  if (hasClass(taken, context)) return { by: "devices", flavors: [head, ...tail] };
  return { by: tail.length > 0 ? "labels" : "single", flavors: [head, ...tail] };
}

function hasClass({ deviceClass }: Flavor, { deviceClasses }: StageContext): boolean {
  return deviceClass !== undefined && deviceClasses.has(deviceClass);
}

/** Flavors with equal keys differ only in what one template can offer. */
function stageKey(flavor: Flavor, context: StageContext): string {
  const { name, nodeSelector, limits, params } = flavor;
  const on = platformOfFlavor(flavor);
  const parsed = limitsOf(flavor);
  if (on === "Hosts" || context.isGroup || "problem" in parsed) return canonicalJson({ on, name });
  if (hasClass(flavor, context)) {
    const { gpus, others } = parsed;
    const count = context.countsMayDiffer ? undefined : (gpus?.count ?? 1);
    // Labels outside of the device cannot differ in one claim, and an image is for one vendor.
    return canonicalJson({ by: "devices", nodeSelector, params, others, vendor: gpus?.vendor, count });
  }
  // An empty node selector term matches no node, so a flavor for all nodes has a template of its own.
  const isForAll = nodeSelector === undefined || Object.keys(nodeSelector).length === 0;
  if (isForAll || context.hasAlternatives) return canonicalJson({ on, name });
  return canonicalJson({ by: "labels", limits, params });
}
