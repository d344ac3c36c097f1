import { expect, test } from "vitest";
import { type Condition, getCondition } from "../../../src/api/conditions.ts";
import { inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { NO_OWNED_OBJECTS } from "../../frame/owned/observe.ts";
import type { PathResult, ServicePath } from "../../frame/service/path.ts";
import { createBothPath } from "./path.ts";

function condition(type: string, status: Condition["status"]): Condition {
  return { type, status, reason: status, message: "", lastTransitionTime: "2026-01-01T00:00:00Z" };
}

/** A side with one ready replica of two. */
function side(conditions: readonly Condition[]): ServicePath {
  const result: PathResult = {
    status: { phase: "Ready", readyReplicas: 1, replicas: 1, conditions: [...conditions] },
    obstacle: { at: "none" },
    rejections: [],
    lacking: 1,
  };
  return { reconcile: async () => result } as unknown as ServicePath;
}

test.each<[string, string, readonly Condition[], readonly Condition[]]>([
  ["Encrypted", "False", [condition("Encrypted", "False")], []],
  ["Encrypted", "True", [condition("Encrypted", "True")], []],
  ["KeyRequired", "False", [condition("KeyRequired", "True")], [condition("KeyRequired", "False")]],
  ["Warnings", "True", [condition("Warnings", "True")], [condition("Warnings", "False")]],
])("%s is %s where one of both sides says so", async (type, expected, onHosts, inPods) => {
  const service = inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "team", uid: "u" },
    spec: { modelRef: "m", replicas: 2, placement: { on: "Auto" } },
  });
  for (const prefer of ["Hosts", "Pods"] as const) {
    const { reconcile } = createBothPath({
      hosts: side(onHosts),
      pods: side(inPods),
      apply: async () => ({}) as never,
      clock: { nowMs: () => 0 } as never,
    });
    const placement = { ...service.spec.placement, prefer };
    const asked = { ...service, spec: { ...service.spec, placement } };
    const { status } = await reconcile({ key: "team/chat", service: asked, own: NO_OWNED_OBJECTS } as never);
    expect(getCondition(status.conditions, type)?.status, prefer).toBe(expected);
  }
});
