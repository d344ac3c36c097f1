/** The relative cost of a Node, which its annotation states. Pure. */
import { ANNOTATION_COST } from "../api/group.ts";
import type { Node } from "../kube/workload-objects.ts";

/** Undefined without the annotation, or if it is no cost. */
export function costOfNode({ metadata }: Pick<Node, "metadata">): number | undefined {
  const text = metadata.annotations?.[ANNOTATION_COST]?.trim();
  const cost = text === undefined || text === "" ? Number.NaN : Number(text);
  return Number.isFinite(cost) && cost >= 0 ? cost : undefined;
}
