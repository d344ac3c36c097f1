/** The relative cost of a Node, which its annotation states. Pure. */
import { ANNOTATION_COST } from "../api/group.ts";

interface AnnotatedNode {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> | undefined };
}

/** Undefined without the annotation, or if it is no cost. */
export function costOfNode({ metadata }: AnnotatedNode): number | undefined {
  const text = metadata.annotations?.[ANNOTATION_COST]?.trim();
  const cost = text === undefined || text === "" ? Number.NaN : Number(text);
  return Number.isFinite(cost) && cost >= 0 ? cost : undefined;
}
