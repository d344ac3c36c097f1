/** How spec.priority ranks among pods: kube-scheduler preempts by the same order as placement on hosts does. */
import { type Priority, prioritySchema } from "../../src/api/fields/shared.ts";
import { MANAGED_BY } from "../../src/api/owned.ts";
import type { PriorityClass } from "../../src/kube/workload-objects.ts";

/** As LLMKube has them; all far below those of the system. */
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

/** All of them. Their values can never change. */
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
