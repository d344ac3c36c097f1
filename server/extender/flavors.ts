/** Ranks nodes by the flavors among which the scheduler chooses for a pod. Pure. */
import type { Flavor } from "../../src/api/flavors.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import { flavorsOf } from "../../src/capacity/flavors/narrow.ts";
import { type ExtenderPod, MAX_SCORE } from "./protocol.ts";

/** A flavor that the required terms of a pod allow. */
export interface OfferedFlavor {
  readonly name: string;
  readonly nodeSelector: Readonly<Record<string, string>>;
}

/** In order of preference. Empty unless the pod may run on several flavors. */
export function flavorsOffered(
  pod: ExtenderPod,
  { spec }: InferenceService,
  model: Model,
): readonly OfferedFlavor[] {
  const terms =
    pod.spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms ?? [];
  if (terms.length === 0) return [];
  const offered = (flavorsOf(spec, model)?.flavors ?? []).flatMap(({ name, nodeSelector = {} }: Flavor) => {
    const labels = Object.entries(nodeSelector);
    const isIn = terms.some(({ matchExpressions }) =>
      labels.every(([key, value]) =>
        matchExpressions?.some(
          (one) => one.key === key && one.operator === "In" && one.values?.includes(value),
        ),
      ),
    );
    return labels.length > 0 && isIn ? [{ name, nodeSelector }] : [];
  });
  return offered.length > 1 ? offered : [];
}

/** Index of the first flavor whose labels a node has; undefined if it has those of none. */
export function flavorIndex(
  flavors: readonly OfferedFlavor[],
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const index = flavors.findIndex(({ nodeSelector }) =>
    Object.entries(nodeSelector).every(([key, value]) => labels[key] === value),
  );
  return index < 0 ? undefined : index;
}

/**
 * A score from 0 to MAX_SCORE from a rank from 0 to 1. Every node of an earlier flavor has a higher score than those of later ones.
 * Half of the range is between the flavors, because the scheduler adds scores of other plugins.
 */
export function scoreOnFlavor(rank: number, index: number | undefined, count: number): number {
  if (count < 2) return Math.round(MAX_SCORE * rank);
  const span = Math.floor(MAX_SCORE / 2 / count);
  const last = count - 1;
  return Math.round(((last - (index ?? last)) / last) * (MAX_SCORE - span)) + Math.round(span * rank);
}
