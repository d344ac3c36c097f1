/** What a service or Model for pods says where services run on hosts only. */
import { expect, test } from "vitest";
import { getCondition } from "../../src/api/conditions.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { modelSchema } from "../../src/api/model.ts";
import { classifyModel } from "../models/source/classify.ts";
import { noPodsStatus } from "./no-pods.ts";
import { desiredCacheOnHosts } from "./workload/cache-eligibility.ts";

const serviceWith = (spec: object) =>
  inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "a", uid: "u" },
    spec: { modelRef: "m", ...spec },
  });
const modelWith = (spec: object) =>
  modelSchema.parse({ metadata: { name: "m", namespace: "a" }, spec: { source: "hf://org/m", ...spec } });
const cuda = { hardware: { accelerator: "cuda" } };
const onHosts = serviceWith({ placement: { on: "Hosts" } });
const onEither = serviceWith({ placement: { on: "Auto" } });
const inPods = serviceWith({ placement: { on: "Pods" } });

test("a service for pods has failed and reports the remedy, whether its Model exists or not", () => {
  for (const model of [undefined, modelWith(cuda)]) {
    const status = noPodsStatus(inPods, model, "2026-01-01T00:00:00Z");
    expect(status).toMatchObject({ phase: "Failed", reason: "PodsDisabled", ready: "0/1" });
    expect(status.message).toMatch(/runs services on hosts only.*placement\.on to Hosts.*pods\.enabled=true/);
    for (const [type, verdict] of [
      ["Ready", "False"],
      ["Degraded", "True"],
    ] as const)
      expect(getCondition(status.conditions, type)).toMatchObject({
        status: verdict,
        reason: "PodsDisabled",
      });
  }
});

test("a service for pods that is suspended is no failure", () => {
  const status = noPodsStatus(serviceWith({ suspend: true }), undefined, "2026-01-01T00:00:00Z");
  expect(status.phase).toBe("Suspended");
});

test.each<[string, object, readonly (typeof inPods)[], "read" | "refused"]>([
  ["for Metal", {}, [], "read"],
  ["for Metal, with a service in pods beside", {}, [inPods], "read"],
  ["for GPUs of nodes", cuda, [], "refused"],
  ["for GPUs of nodes, with a service in pods", cuda, [serviceWith({})], "refused"],
  ["for GPUs of nodes, with a service on hosts too", cuda, [inPods, onHosts], "read"],
  ["for GPUs of nodes, with a service for either", cuda, [onEither], "read"],
  ["on a volume", { source: "pvc://weights/m.gguf" }, [onHosts], "refused"],
])("a Model %s: %s", (_, spec, services, expected) => {
  const model = modelWith(spec);
  const task = classifyModel(model, desiredCacheOnHosts(model, services));
  if (expected === "refused") expect(task).toMatchObject({ at: "refused", code: "PodsDisabled" });
  else expect(task.at).toBe("remote");
});
