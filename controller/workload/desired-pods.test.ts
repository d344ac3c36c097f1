/** What brings new defaults to the pods of a service, and what does not. */
import { describe, expect, test } from "vitest";
import { ANNOTATION_RESTARTED_AT, ANNOTATION_TEMPLATE } from "../../src/api/group.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { modelSchema } from "../../src/api/model.ts";
import type { Deployment, PodTemplate } from "../../src/kube/workload-objects.ts";
import type { PodsSettings } from "./contract.ts";
import { desiredPodsDigest } from "./desired-pods.ts";
import { resolvePods } from "./resolve.ts";
import { podRevisionOf, withRevision } from "./revision.ts";

interface Desired {
  readonly spec?: object;
  readonly labels?: Record<string, string>;
  readonly annotations?: Record<string, string>;
  readonly model?: object;
  readonly status?: object;
}

const CACHE = { phase: "Ready", reason: "", message: "", claimName: "c", folder: "f", file: "m.gguf" };

function objectsOf({ spec, labels, annotations = {}, model, status }: Desired) {
  const service = inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "a", uid: "u", labels, annotations },
    spec: { modelRef: "m", ...spec },
  });
  const read = { phase: "Ready", format: "gguf", files: ["m.gguf"], sizeBytes: 1e9, cache: CACHE };
  return {
    service,
    model: modelSchema.parse({
      metadata: { name: "m", namespace: "a" },
      spec: { source: "hf://org/m/m.gguf", hardware: { accelerator: "cpu" }, ...model },
      status: { ...read, ...status },
    }),
  };
}

const OLD: PodsSettings = { images: { llamacpp: "registry.example/llama:old" } };
const NEW: PodsSettings = { images: { llamacpp: "registry.example/llama:new" } };

function render(desired: Desired, settings: PodsSettings, live?: Deployment): Deployment {
  const found = resolvePods({ ...objectsOf(desired), loraModels: [], settings, live });
  if (found.at === "blocked") throw new Error(found.message);
  return found.workload.deployment;
}

/** As a controller with other probes and another drain script has rendered it. */
function byAnOlderController(desired: Desired): Deployment {
  const { metadata, spec } = render(desired, OLD);
  const template = structuredClone(spec.template) as PodTemplate & { spec: { containers: object[] } };
  Object.assign(template.spec.containers[0] ?? {}, {
    startupProbe: { tcpSocket: { port: "http" } },
    lifecycle: { preStop: { exec: { command: ["/bin/sh", "-c", "sleep 1"] } } },
  });
  const older = withRevision(template);
  const annotations = { ...metadata.annotations, [ANNOTATION_TEMPLATE]: JSON.stringify({ template: older }) };
  return { metadata: { ...metadata, annotations }, spec: { ...spec, template: older } } as Deployment;
}

const NAMED = { modelNames: [{ name: "gpt-4o" }] };

const KEPT: readonly [string, Desired][] = [
  ["nothing", {}],
  ["the number of replicas", { spec: { replicas: 3 } }],
  ["suspension", { spec: { suspend: true } }],
  ["an autoscaler", { spec: { autoscaling: { maxReplicas: 3 } } }],
  ["the Service", { spec: { endpoint: { port: 9000, allowFrom: ["b"] } } }],
  ["limits of rollouts", { spec: { rollout: { maxUnavailable: 1 }, rolloutPolicy: { waitForIdle: true } } }],
  ["a history", { spec: { revisionHistoryLimit: 3 } }],
  ["a maximum age", { spec: { maxPodLifetimeSeconds: 60, maxPodLifetimeIdleTimeoutSeconds: 5 } }],
  [
    "fields of hosts",
    { spec: { evictionProtection: true, hostLostSeconds: 9, placement: { hosts: ["a"] } } },
  ],
  ["labels of others", { labels: { team: "a", "kueue.x-k8s.io/other": "b" } }],
  ["a prefetch of the Model", { model: { prefetch: true, refreshPolicy: "OnChange" } }],
  ["what a newer controller reads in the same file", { status: { weightsBytes: 7 } }],
];
const CHANGED: readonly [string, Desired][] = [
  ["an engine's setting", { spec: { contextSize: 2048 } }],
  ["a field of pods", { spec: { nodeSelector: { zone: "a" } } }],
  ["a model name", { spec: { endpoint: NAMED } }],
  ["the priority", { spec: { priority: "high" } }],
  ["the time to drain", { spec: { rollout: { drainSeconds: 5 } } }],
  ["a restart that is asked for", { annotations: { [ANNOTATION_RESTARTED_AT]: "2026-01-01T00:00:00Z" } }],
  ["the queue", { labels: { "kueue.x-k8s.io/queue-name": "team-a" } }],
  ["the topology", { annotations: { "kueue.x-k8s.io/podset-required-topology": "rack" } }],
  ["the Model's source", { model: { source: "hf://org/m/n.gguf" } }],
  ["the Model's content", { status: { pinned: { key: "k", revision: "c0ffee" } } }],
  ["where the weights are", { status: { cache: { ...CACHE, folder: "g" } } }],
  ["who chooses the nodes", { spec: { placement: { mode: "Auto" } } }],
];

describe("after an upgrade of the controller", () => {
  test.each(KEPT)("the template stays with a change of %s", (_, desired) => {
    const live = byAnOlderController({});
    const { spec } = render(desired, NEW, live);
    expect(spec.template).toEqual(live.spec.template);
    // What the annotation holds is what the next controller keeps.
    expect(render(desired, NEW, render(desired, NEW, live)).spec.template).toEqual(live.spec.template);
  });

  test.each(CHANGED)("its defaults come with a change of %s", (_, desired) => {
    const { spec } = render(desired, NEW, byAnOlderController({}));
    expect(spec.template).toEqual(render(desired, NEW).spec.template);
    expect(spec.template.spec.containers[0]?.image).toBe("registry.example/llama:new");
  });
});

test.each(KEPT)("a change of %s is in no template", (_, desired) => {
  expect(render(desired, NEW).spec.template).toEqual(render({}, NEW).spec.template);
});

test("model names change the template of an engine that checks them, and their order and weights change none", () => {
  const digest = (runtime: string, ...modelNames: readonly object[]) => {
    const { service, model } = objectsOf({ spec: { runtime, endpoint: { modelNames } } });
    return desiredPodsDigest({ service, models: [{ model }] });
  };
  const [a, b] = [{ name: "a" }, { name: "b" }];
  expect(digest("vllm", a)).not.toBe(digest("vllm", a, b));
  expect(digest("vllm", b, { ...a, weight: 3 })).toBe(digest("vllm", a, b));
  for (const runtime of ["llamacpp", "sglang", "tgi", "tensorrt-llm"])
    expect(digest(runtime, a)).toBe(digest(runtime));
});

test("an edited template is restored to the rendered one, and an edited annotation is ignored", () => {
  const live = byAnOlderController({});
  const sidecar = { name: "sidecar", image: "registry.example/proxy:1" };
  const { template } = live.spec;
  const containers = [...template.spec.containers, sidecar];
  const edited = { ...live, spec: { ...live.spec, template: { ...template, spec: { containers } } } };
  expect(render({}, NEW, edited).spec.template).toEqual(template);

  const forged = { ...template, spec: { containers } };
  const annotations = { ...live.metadata.annotations, [ANNOTATION_TEMPLATE]: JSON.stringify(forged) };
  for (const text of [annotations[ANNOTATION_TEMPLATE], "{", "null", "[]"]) {
    const metadata = { ...live.metadata, annotations: { ...annotations, [ANNOTATION_TEMPLATE]: text ?? "" } };
    const found = render({}, NEW, { ...live, metadata }).spec.template;
    expect(podRevisionOf(found)).toBe(podRevisionOf(render({}, NEW).spec.template));
  }
});

test("the digest of a plain service never changes, because a new field with a default would replace all pods", () => {
  const { service, model } = objectsOf({});
  expect(desiredPodsDigest({ service, models: [{ model, weights: undefined }] })).toBe(
    "5ca9b58a366eaab8bf398f580aabc662",
  );
});

test("a service passes its queue of Kueue and its topology on, and nothing else of its metadata", () => {
  const queue = { "kueue.x-k8s.io/queue-name": "team-a", "kueue.x-k8s.io/priority-class": "high" };
  const topology = { "kueue.x-k8s.io/podset-preferred-topology": "rack" };
  const labels = { ...queue, team: "a", "kueue.x-k8s.io/pod-group-name": "group" };
  const annotations = { ...topology, note: "n", "kueue.x-k8s.io/retriable-in-group": "false" };
  const { metadata, spec } = render({ labels, annotations }, NEW);
  const plain = render({}, NEW);
  expect(metadata.labels).toEqual({ ...plain.metadata.labels, ...queue });
  expect(spec.template.metadata?.labels).toMatchObject(queue);
  expect(spec.template.metadata?.annotations).toMatchObject(topology);
  expect(JSON.stringify(spec.template)).not.toMatch(/pod-group-name|retriable|"team"/);
  expect(spec.selector).toEqual(plain.spec.selector);
});

test("both ways to name the same Models, in any order, are the same desired state", () => {
  const digest = (spec: object) =>
    desiredPodsDigest({
      service: inferenceServiceSchema.parse({ metadata: { name: "chat", namespace: "a" }, spec }),
      models: [],
    });
  const draft = { name: "d", role: "draft" };
  const [a, b] = ["a", "b"].map((name) => ({ name, role: "lora" }));
  const speculativeDecoding = { type: "draft", draftModelRef: "d" };
  expect(digest({ modelRefs: [{ name: "m" }] })).toBe(digest({ modelRef: "m" }));
  expect(digest({ modelRefs: [draft, { name: "m" }] })).toBe(digest({ modelRef: "m", speculativeDecoding }));
  const older = { speculativeDecoding: { type: "draft", draftModel: "d" } };
  expect(digest({ modelRef: "m", ...older })).toBe(digest({ modelRef: "m", speculativeDecoding }));
  expect(digest({ modelRefs: [draft, { name: "m" }], ...older })).toBe(
    digest({ modelRef: "m", speculativeDecoding }),
  );
  expect(digest({ modelRefs: [{ name: "m" }, a, b] })).toBe(digest({ modelRefs: [b, { name: "m" }, a] }));
  const scaled = { modelRef: "m", loraAdapters: [{ modelRef: "a", scale: 1 }] };
  expect(digest({ modelRef: "m", loraAdapters: [{ modelRef: "a" }] })).toBe(digest(scaled));
  expect(digest({ modelRefs: [{ name: "m" }, a] })).not.toBe(digest({ modelRef: "m" }));
});
