import { expect, test } from "vitest";
import type { Runtime } from "../api/fields/runtimes.ts";
import { type InferenceService, inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
import type { Model } from "../api/model.ts";
import {
  parseRevisionData,
  REVISION_SPEC_FIELDS,
  revisionSpec,
  toPodsRevisionData,
  toRevisionData,
} from "./revision-data.ts";
import { toReplicaModel, toReplicaTemplate } from "./template.ts";

const model = {
  metadata: { name: "tiny" },
  spec: { source: "https://models.example/tiny.gguf", refreshPolicy: "IfNotPresent" },
} as unknown as Model;

function serviceOf(spec: object): InferenceService {
  const parsed = inferenceServiceSpecSchema.parse({ modelRef: "tiny", ...spec });
  return { metadata: { name: "chat", namespace: "default", uid: "u1" }, spec: parsed };
}

function templateOf(service: InferenceService, runtime: Runtime = "llamacpp") {
  return toReplicaTemplate({ service, runtime, model: toReplicaModel(model, "gguf") });
}

test("what is kept survives JSON and gives the same revision when it is written back", () => {
  const service = serviceOf({
    replicas: 3,
    contextSize: 2048,
    priority: "high",
    auth: { secretRef: { name: "key" } },
    endpoint: { port: 9090, tls: { secretRef: { name: "cert" } }, gate: "Always" },
    ropeScaling: { type: "yarn", factor: "2.0" },
  });
  const kept = toRevisionData({ service, model, backend: undefined }, templateOf(service));
  const read = parseRevisionData(JSON.parse(JSON.stringify(kept)));
  expect(read).toEqual(kept);
  expect(kept.spec).toMatchObject({ modelRef: "tiny", contextSize: 2048 });
  expect(kept.spec.endpoint).toEqual({ tls: { secretRef: { name: "cert" } }, gate: "Always" });
  expect(kept.spec).not.toHaveProperty("replicas");
  expect(kept.spec).not.toHaveProperty("priority");
  const back = serviceOf({ ...read?.spec, replicas: 1 });
  expect(templateOf(back).revision).toBe(kept.template?.revision);
});

test.each<[string, object]>([
  ["priority", { priority: "critical" }],
  ["replicas", { replicas: 7 }],
  ["evictionProtection", { evictionProtection: true }],
  ["hostLostSeconds", { hostLostSeconds: 60 }],
  ["drainSeconds", { rollout: { drainSeconds: 0 } }],
  ["probes", { probeOverrides: { liveness: { timeoutSeconds: 1 } } }],
  ["placement", { placement: { spread: "Required" } }],
  ["endpoint", { endpoint: { port: 9090, gate: "Auto" } }],
  ["suspend", { suspend: true }],
])("a change of %s is no new revision", (field, spec) => {
  const before = serviceOf({});
  const after = serviceOf(spec);
  expect(after.spec).not.toEqual(before.spec);
  expect(templateOf(after).revision).toBe(templateOf(before).revision);
  expect(REVISION_SPEC_FIELDS).not.toContain(field);
});

test("a change of its command is a new revision of a generic engine, kept to go back to, and nothing to another", () => {
  const command = ["/opt/x/serve", "{{port}}"];
  const before = serviceOf({ runtime: "generic", command });
  const after = serviceOf({ runtime: "generic", command, args: ["--verbose"] });
  expect(templateOf(after, "generic").revision).not.toBe(templateOf(before, "generic").revision);
  expect(revisionSpec(after.spec)).toHaveProperty("args");
  expect(templateOf(serviceOf({ command })).revision).toBe(templateOf(serviceOf({})).revision);
  expect(revisionSpec(serviceOf({ args: ["x"] }).spec)).not.toHaveProperty("args");
});

test("a revision of pods keeps what pods are made from, and not what surrounds them", () => {
  const service = serviceOf({ image: "a/b:1", maxPodLifetimeSeconds: 60, autoscaling: { maxReplicas: 3 } });
  const read = parseRevisionData(
    JSON.parse(
      JSON.stringify(
        toPodsRevisionData({ service, model, backend: undefined }, { runtime: "llamacpp", templates: {} }),
      ),
    ),
  );
  expect(read?.template).toBeUndefined();
  expect(read?.spec).toEqual({ modelRef: "tiny", image: "a/b:1", priority: "normal" });
});

test("anything else is no revision data", () => {
  expect(parseRevisionData({ template: {} })).toBeUndefined();
  expect(parseRevisionData(undefined)).toBeUndefined();
});
