import { expect, test } from "vitest";
import { inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import type { Deployment, HorizontalPodAutoscaler } from "../../../src/kube/workload-objects.ts";
import { replicasToTakeOver } from "./take-over.ts";

const metadata = { name: "chat", namespace: "default" };

function service(fields: Record<string, unknown> = {}) {
  const spec = { modelRef: "tiny", autoscaling: { maxReplicas: 8 }, ...fields };
  return inferenceServiceSchema.parse({ metadata, spec });
}

function own(kind: string, replicas: number) {
  const scaleTargetRef = { apiVersion: "apps/v1", kind, name: "chat" };
  const autoscaler: HorizontalPodAutoscaler = { metadata, spec: { scaleTargetRef, maxReplicas: 8 } };
  const deployment = { metadata, spec: { replicas } } as Deployment;
  return { autoscalers: [autoscaler], deployments: [deployment] };
}

test("the replicas of a Deployment with an autoscaler of its own become those of the service", () => {
  expect(replicasToTakeOver(service(), own("Deployment", 6))).toBe(6);
});

test.each([
  ["the autoscaler sets the replicas of the service", service(), own("InferenceService", 6)],
  ["both have the same number", service({ replicas: 6 }), own("Deployment", 6)],
  ["the service is suspended", service({ suspend: true }), own("Deployment", 6)],
  ["the Deployment has no replicas", service(), own("Deployment", 0)],
  ["the service has no autoscaling", service({ autoscaling: undefined }), own("Deployment", 6)],
])("nothing is taken over if %s", (_, one, objects) => {
  expect(replicasToTakeOver(one, objects)).toBeUndefined();
});
