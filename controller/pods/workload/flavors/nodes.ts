/** Nodes that the flavors of a pod template allow. Pure. */
import type { Node } from "../../../../src/kube/workload-objects.ts";
import type { PodFlavors, Term } from "../contract.ts";

/** True if a node has all the labels. */
export function hasLabels(
  labels: Readonly<Record<string, string>> = {},
  required: Readonly<Record<string, string>> = {},
): boolean {
  return Object.entries(required).every(([key, value]) => labels[key] === value);
}

/** True if a node has the labels that the flavors of a template require. */
export function matchesFlavors({ metadata: { labels } }: Node, flavors: PodFlavors | undefined): boolean {
  if (flavors === undefined) return true;
  const { nodeSelector = {}, terms } = flavors;
  return (
    hasLabels(labels, nodeSelector) && (terms === undefined || terms.some((term) => matches(labels, term)))
  );
}

/** The terms of flavors have expressions with In only. */
function matches(labels: Readonly<Record<string, string>> = {}, { matchExpressions = [] }: Term): boolean {
  return matchExpressions.every((one) => {
    const { key, values } = one as { readonly key: string; readonly values: readonly string[] };
    const value = labels[key];
    return value !== undefined && values.includes(value);
  });
}
