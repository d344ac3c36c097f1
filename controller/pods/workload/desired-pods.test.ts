/** What brings new defaults to the pods of a service, and what does not. */
import { describe, expect, test } from "vitest";
import { ANNOTATION_RENDERED_FOR, ANNOTATION_RESTARTED_AT, LABEL_REVISION } from "../../../src/api/group.ts";
import { inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { modelSchema } from "../../../src/api/model.ts";
import type { ControllerRevision } from "../../../src/kube/objects.ts";
import type { Deployment, PodTemplate } from "../../../src/kube/workload-objects.ts";
import type { PodsSettings } from "./contract.ts";
import { desiredPodsDigest } from "./desired-pods.ts";
import { resolvePods } from "./resolve.ts";
import { withRevision } from "./revision.ts";

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

function resolve(desired: Desired, settings: PodsSettings, revisions: readonly ControllerRevision[] = []) {
  const found = resolvePods({ ...objectsOf(desired), loraModels: [], settings, revisions });
  if (found.at === "blocked") throw new Error(found.message);
  return found;
}

function render(desired: Desired, settings: PodsSettings, ...revisions: ControllerRevision[]): Deployment {
  return resolve(desired, settings, revisions).workload.deployment;
}

/** The revision of a service that an older controller, with other probes and another drain script, has rendered. */
function byAnOlderController(desired: Desired) {
  const { digest, runtime, workload } = resolve(desired, OLD);
  const { template: rendered } = workload.deployment.spec;
  const changed = structuredClone(rendered) as PodTemplate & { spec: { containers: object[] } };
  Object.assign(changed.spec.containers[0] ?? {}, {
    startupProbe: { tcpSocket: { port: "http" } },
    lifecycle: { preStop: { exec: { command: ["/bin/sh", "-c", "sleep 1"] } } },
  });
  const template = withRevision(changed);
  const revision: ControllerRevision = {
    metadata: {
      name: "chat-1",
      labels: { [LABEL_REVISION]: "1" },
      annotations: { [ANNOTATION_RENDERED_FOR]: digest },
    },
    revision: 1,
    data: {
      pods: { runtime, templates: { template } },
      spec: {},
      model: { name: "m", source: "hf://org/m" },
    },
  };
  return { template, revision };
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
  ["its owner", { model: { ownedBy: "meta", createdAt: "2024-07-23T00:00:00Z" } }],
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
    const { template, revision } = byAnOlderController({});
    expect(render(desired, NEW, revision).spec.template).toEqual(template);
  });

  test.each(CHANGED)("its defaults come with a change of %s", (_, desired) => {
    const { spec } = render(desired, NEW, byAnOlderController({}).revision);
    expect(spec.template).toEqual(render(desired, NEW).spec.template);
    expect(spec.template.spec.containers[0]?.image).toBe("registry.example/llama:new");
  });
});

test("a changed family of the Model labels the Deployment, and the pods that another change replaces", () => {
  const family = (familyName: string, spec = {}): Desired => ({ spec, model: { familyName } });
  const { template, revision } = byAnOlderController(family("llama2"));
  const label = (name: string) => expect.objectContaining({ "metalbridge.dev/model-family": name });
  expect(template.metadata?.labels).toEqual(label("llama2"));
  const changed = render(family("llama3"), NEW, revision);
  expect(changed.spec.template).toEqual(template);
  expect(changed.metadata.labels).toEqual(label("llama3"));
  expect(changed.spec.selector.matchLabels).not.toEqual(label("llama3"));
  const replaced = render(family("llama3", { contextSize: 2048 }), NEW, revision);
  expect(replaced.spec.template.metadata?.labels).toEqual(label("llama3"));
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

test("only the newest revision of pods counts, and one that cannot be read is ignored", () => {
  const { revision } = byAnOlderController({});
  const fresh = render({}, NEW).spec.template;
  const other = {
    ...revision,
    metadata: { ...revision.metadata, annotations: { [ANNOTATION_RENDERED_FOR]: "other" } },
    revision: 2,
  };
  expect(render({}, NEW, revision, other).spec.template).toEqual(fresh);
  const onHosts = { ...revision, data: { template: {} }, revision: 3 };
  expect(render({}, NEW, onHosts, revision).spec.template).not.toEqual(fresh);
  for (const data of ["{", null, {}, { spec: {}, model: { name: "m", source: "s" } }])
    expect(render({}, NEW, { ...revision, data }).spec.template).toEqual(fresh);
});

test("the digest of a plain service never changes, because a new field with a default would replace all pods", () => {
  const { service, model } = objectsOf({});
  expect(desiredPodsDigest({ service, models: [{ model, weights: undefined }] })).toBe(
    "5ca9b58a366eaab8bf398f580aabc662",
  );
});

test("arguments that are settings count in the digest as they are written", () => {
  const desired = {
    spec: { runtime: "vllm", extraArgs: ["--max-model-len=8192"] },
    model: { source: "hf://org/m", hardware: { accelerator: "cuda" } },
    status: { format: "safetensors" },
  };
  const { service, model } = objectsOf(desired);
  const weights = { claimName: CACHE.claimName, folder: CACHE.folder, file: CACHE.file };
  const written = desiredPodsDigest({ service, models: [{ model, weights }] });
  const { digest, notes } = resolve(desired, NEW);
  expect(notes).toEqual(["extraArgs: --max-model-len=8192 is set as vllmConfig.maxModelLen"]);
  expect(digest).toBe(written);
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
