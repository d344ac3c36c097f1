import { expect, test } from "vitest";
import { inferenceReplicaSpecSchema } from "../api/inference-replica.ts";
import { inferenceServiceSchema } from "../api/inference-service/index.ts";
import { modelSchema } from "../api/model.ts";
import { readProbes } from "../api/probes.ts";
import { revisionHistoryLimit, toEngineSettings, toReplicaModel, toReplicaTemplate } from "./template.ts";

function service(spec: Record<string, unknown> = {}) {
  return inferenceServiceSchema.parse({
    metadata: { name: "chat", uid: "uid-1" },
    spec: { modelRef: "tiny", ...spec },
  });
}

test("what sizes memory is always explicit", () => {
  expect(toEngineSettings(service().spec)).toEqual({
    mode: "chat",
    contextSize: 4096,
    parallelSlots: 1,
    kvUnified: false,
    promptCacheMiB: 1024,
  });
});

test("the default context is per slot and never beyond what the model was trained for", () => {
  const { spec } = service({ parallelSlots: 4 });
  expect(toEngineSettings(spec).contextSize).toBe(16_384);
  expect(toEngineSettings(spec, { gguf: { contextLength: 2048 } }).contextSize).toBe(8192);
  expect(
    toEngineSettings(service({ contextSize: 65_536 }).spec, { gguf: { contextLength: 2048 } }).contextSize,
  ).toBe(65_536);
});

test("embedding and rerank keep no prompt cache", () => {
  expect(toEngineSettings(service({ mode: "embedding" }).spec).promptCacheMiB).toBe(0);
  expect(toEngineSettings(service({ mode: "rerank" }).spec).promptCacheMiB).toBe(0);
});

test("settings are taken over, falsy ones included, and nothing else is", () => {
  const settings = toEngineSettings(
    service({ flashAttention: false, reasoningBudget: 0, extraArgs: ["--verbose"], image: "x", replicas: 3 })
      .spec,
    { gpuLayers: -1 },
  );
  expect(settings).toMatchObject({
    flashAttention: false,
    reasoningBudget: 0,
    extraArgs: ["--verbose"],
    gpuLayers: -1,
  });
  expect(settings).not.toHaveProperty("image");
  expect(settings).not.toHaveProperty("replicas");
});

test("speculation loses its references, and none or disabled is no speculation", () => {
  const draft = service({ speculativeDecoding: { type: "draft", draftModelRef: "d", nDraftMax: 8 } });
  expect(toEngineSettings(draft.spec).speculativeDecoding).toEqual({ type: "draft", nDraftMax: 8 });
  const none = service({ speculativeDecoding: { type: "disabled" } });
  expect(toEngineSettings(none.spec)).not.toHaveProperty("speculativeDecoding");
});

test("a template holds all that an agent needs, and is what the API server would give back", () => {
  const model = modelSchema.parse({
    metadata: { name: "tiny" },
    spec: { source: "hf://org/repo/a.gguf", sha256: "A".repeat(64), sourceSecretRef: { name: "hf" } },
    status: { sizeBytes: 10, gguf: { contextLength: 512 } },
  });
  const template = toReplicaTemplate({
    service: service({
      auth: { secretRef: { name: "keys" } },
      endpoint: { gate: "Always", tls: { secretRef: { name: "cert" }, clientCASecretRef: { name: "ca" } } },
    }),
    runtime: "llamacpp",
    model: toReplicaModel(model, "gguf"),
  });
  expect(template).toMatchObject({
    serviceName: "chat",
    serviceUid: "uid-1",
    model: { sha256: "a".repeat(64), files: [], secretRef: { name: "hf" }, sizeBytes: 10 },
    engine: { contextSize: 512 },
    auth: { secretName: "keys", key: "apiKey" },
    gate: "Always",
    tls: { secretName: "cert", clientCASecretName: "ca" },
  });
  expect(template.revision).toMatch(/^[0-9a-f]{10}$/);
  const whole = { ...template, hostName: "mac-1" };
  const read = inferenceReplicaSpecSchema.parse({ template: whole, memory: { claimBytes: 1 } });
  expect(read.template).toStrictEqual(whole);
});

test("learning the model's limits changes the default context of new replicas, but no revision", () => {
  const model = {
    source: "file:///a.gguf",
    files: [],
    format: "gguf",
    refreshPolicy: "IfNotPresent",
  } as const;
  const before = toReplicaTemplate({
    service: service(),
    runtime: "llamacpp",
    model: { ...model, files: [] },
  });
  const learned = { ...model, files: [], gguf: { contextLength: 512 } };
  const after = toReplicaTemplate({ service: service(), runtime: "llamacpp", model: learned });
  expect([before.engine.contextSize, after.engine.contextSize]).toEqual([4096, 512]);
  expect(after.revision).toBe(before.revision);
  const asked = toReplicaTemplate({
    service: service({ contextSize: 512 }),
    runtime: "llamacpp",
    model: learned,
  });
  expect(asked.revision).not.toBe(before.revision);
});

test("probes are read from what a kubelet would do", () => {
  expect(readProbes(service().spec.probeOverrides).value).toEqual({ timeoutSeconds: 5, failureThreshold: 3 });
  const spec = service({
    probeOverrides: {
      startup: { periodSeconds: 20, failureThreshold: 90 },
      liveness: { timeoutSeconds: 9, failureThreshold: "x" },
    },
  }).spec;
  expect(readProbes(spec.probeOverrides).value).toEqual({
    startSeconds: 1800,
    timeoutSeconds: 9,
    failureThreshold: 3,
  });
});

test("one setting of a startup probe goes with a kubelet's default of the other", () => {
  const startSeconds = (startup: Record<string, unknown>) => readProbes({ startup }).value.startSeconds;
  expect(startSeconds({ periodSeconds: 60 })).toBe(180);
  expect(startSeconds({ failureThreshold: 60 })).toBe(600);
  expect(startSeconds({ periodSeconds: 60, failureThreshold: 0 })).toBe(180);
  expect(startSeconds({ periodSeconds: 86_400, failureThreshold: 2 })).toBe(86_400);
  for (const none of [{}, { httpGet: {} }, { failureThreshold: 0 }, { periodSeconds: "60" }])
    expect(startSeconds(none)).toBeUndefined();
});

test("the history limit has two places and a default", () => {
  expect(revisionHistoryLimit(service().spec)).toBe(10);
  expect(revisionHistoryLimit(service({ revisionHistoryLimit: 0 }).spec)).toBe(0);
  expect(revisionHistoryLimit(service({ rollout: { revisionHistoryLimit: 3 } }).spec)).toBe(3);
});

test("what a Model pins goes into the template and its revision; a Model without a pin keeps the revision it had", () => {
  const revisionWith = (spec: object, status?: object) => {
    const model = modelSchema.parse({ metadata: { name: "m" }, spec, ...(status && { status }) });
    return toReplicaTemplate({
      service: service(),
      runtime: "llamacpp",
      model: toReplicaModel(model, "gguf"),
    });
  };
  const spec = { source: "hf://org/repo", quantization: "Q4_K_M" };
  const known = { files: ["m-Q4_K_M.gguf"], revision: "c".repeat(40), phase: "Ready" };
  const bare = revisionWith({ source: "hf://org/repo" });
  const before = revisionWith(spec, known);
  expect(before.model).toEqual({ ...bare.model });
  expect(before.revision).toBe(bare.revision);
  const pinned = { key: "k", file: "m-Q4_K_M.gguf", revision: "c".repeat(40) };
  const after = revisionWith(spec, { ...known, pinned });
  expect(after.model).toMatchObject({ files: ["m-Q4_K_M.gguf"], revision: "c".repeat(40) });
  expect(after.revision).not.toBe(before.revision);
});

test("the quantization goes to the host only where the host has to choose: in one of its folders", () => {
  const quantizationOf = (source: string, files?: string[]) => {
    const spec = { source, quantization: "Q4_K_M", ...(files && { files }) };
    return toReplicaModel(modelSchema.parse({ metadata: { name: "m" }, spec }), "gguf").quantization;
  };
  expect(quantizationOf("file:///models/folder")).toBe("Q4_K_M");
  expect(quantizationOf("file:///models/folder", ["a.gguf"])).toBeUndefined();
  expect(quantizationOf("file:///models/m.gguf")).toBeUndefined();
  expect(quantizationOf("hf://org/repo")).toBeUndefined();
});
