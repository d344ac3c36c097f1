/** PriorityClasses for spec.priority, so that kube-scheduler preempts in the same order as placement on hosts. */
import { type Priority, prioritySchema } from "../../../src/api/fields/shared.ts";
import { MANAGED_BY } from "../../../src/api/owned.ts";
import type { PriorityClass } from "../../../src/kube/workload-objects.ts";

/** The values that LLMKube uses, all far below those of the system's classes. */
const VALUES: Readonly<Record<Priority, number>> = {
  critical: 1_000_000,
  high: 100_000,
  normal: 10_000,
  low: 1000,
  batch: 100,
};

export function priorityClassName(priority: Priority): string {
  return `metalbridge-${priority}`;
}

/** All PriorityClasses. Kubernetes does not allow their values to change. */
export function priorityClasses(): PriorityClass[] {
  return prioritySchema.options.map((priority) => ({
    apiVersion: "scheduling.k8s.io/v1",
    kind: "PriorityClass",
    metadata: { name: priorityClassName(priority), labels: MANAGED_BY },
    value: VALUES[priority],
    preemptionPolicy: priority === "batch" ? "Never" : "PreemptLowerPriority",
    description: `InferenceServices with spec.priority ${priority}`,
  }));
}
