/** The scheduler's rules of readiness, cordons and taints: what keeps pods from a node. Pure. */
import type { Node, PodSpec } from "../../../src/kube/workload-objects.ts";

type Taints = NonNullable<NonNullable<Node["spec"]>["taints"]>;
type Toleration = NonNullable<PodSpec["tolerations"]>[number];

/** True if pods with the tolerations may start on the node now. A node without conditions is not ready. */
export function nodeAdmits({ spec, status }: Node, tolerations: readonly Toleration[] = []): boolean {
  const isReady = status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
  return spec?.unschedulable !== true && isReady === true && areTolerated(spec?.taints ?? [], tolerations);
}

/** True if pods with the tolerations may start on a node with the taints. */
export function areTolerated(taints: Taints, tolerations: readonly Toleration[]): boolean {
  return taints.every(
    (taint) => taint.effect === "PreferNoSchedule" || tolerations.some((one) => tolerates(one, taint)),
  );
}

/** A toleration without an effect matches all effects, and Exists without a key matches all taints. */
function tolerates({ key = "", operator = "Equal", value = "", effect = "" }: Toleration, taint: Toleration) {
  if (effect !== "" && effect !== taint.effect) return false;
  if (operator === "Exists") return key === "" || key === taint.key;
  return operator === "Equal" && key === taint.key && value === (taint.value ?? "");
}
