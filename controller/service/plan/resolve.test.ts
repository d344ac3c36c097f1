import { expect, test } from "vitest";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { inferenceServiceSpecSchema } from "../../../src/api/inference-service/index.ts";
import type { Model } from "../../../src/api/model.ts";
import { resolveService } from "./resolve.ts";

const GIB = 1024 ** 3;
const GGUF = {
  layerCount: 16,
  headCountKV: 8,
  keyLength: 64,
  valueLength: 64,
  embeddingSize: 2048,
  contextLength: 8192,
};

function model(spec: object = {}, status: object = {}): Model {
  return {
    metadata: { name: "tiny", namespace: "default", generation: 1 },
    spec: { source: "https://models.example/tiny.gguf", hardware: { accelerator: "metal" }, ...spec },
    status: { phase: "Ready", observedGeneration: 1, ...status },
  } as unknown as Model;
}

function resolve(of: Model | undefined, spec: object = {}, replicas: readonly InferenceReplica[] = []) {
  const service = {
    metadata: { name: "chat", namespace: "default", uid: "u1" },
    spec: inferenceServiceSpecSchema.parse({ modelRef: "tiny", ...spec }),
  };
  return resolveService({ service, model: of, replicas });
}

function found(sizeBytes: number, gguf?: object): InferenceReplica {
  const template = { model: { source: "file:///models/tiny.gguf" } };
  return {
    metadata: { name: "chat-0-a" },
    spec: { template },
    status: { model: { sizeBytes, gguf } },
  } as unknown as InferenceReplica;
}

test("a resolved Model gives runtime, revision and a claim that counts more than the weights", () => {
  const resolution = resolve(model({}, { weightsBytes: GIB, gguf: GGUF }));
  expect(resolution).toMatchObject({
    at: "resolved",
    template: { runtime: "llamacpp", serviceUid: "u1" },
    claim: { at: "estimated", memory: { weightsBytes: GIB } },
    unhonored: [],
  });
  if (resolution.at !== "resolved" || resolution.claim.at !== "estimated") return;
  const { claimBytes, weightsBytes, kvBytes } = resolution.claim.memory;
  expect(kvBytes).toBe(16 * 4096 * 2 * 8 * 64 * 2);
  expect(claimBytes).toBeGreaterThan(weightsBytes + kvBytes);
});

test.each([
  ["no Model", undefined, {}, "ModelNotFound", false],
  [
    "a deleted Model",
    { ...model(), metadata: { name: "tiny", deletionTimestamp: "now" } },
    {},
    "ModelNotFound",
    false,
  ],
  ["a Model not looked at", model({}, { phase: "Pending" }), {}, "ModelNotReady", false],
  ["a status of an older spec", model({}, { observedGeneration: 0 }), {}, "ModelNotReady", false],
  ["a failed Model", model({}, { phase: "Failed", reason: "SourceNotFound" }), {}, "ModelFailed", true],
  ["a Linux accelerator", model({ hardware: { accelerator: "cuda" } }), {}, "NotYetSupported", true],
  ["no accelerator, which is cpu", model({ hardware: undefined }), {}, "NotYetSupported", true],
  ["no size", model(), {}, "ModelSizeUnknown", false],
  ["a header that tells too little", model({}, { weightsBytes: GIB }), {}, "ModelSizeUnknown", false],
  [
    "a runtime that does not load the format",
    model({}, { weightsBytes: GIB, gguf: GGUF }),
    { runtime: "omlx" },
    "RuntimeMismatch",
    true,
  ],
  [
    "a format without a runtime on Macs",
    model({ format: "safetensors" }, { weightsBytes: GIB }),
    {},
    "RuntimeMismatch",
    true,
  ],
  [
    "a draft Model that is missing",
    model({}, { weightsBytes: GIB, gguf: GGUF }),
    { speculativeDecoding: { type: "draft", draftModelRef: "small" } },
    "ModelNotFound",
    false,
  ],
])("%s is a reason, not a crash", (_, of, spec, code, isFinal) => {
  expect(resolve(of as Model | undefined, spec)).toMatchObject({ at: "blocked", code, isFinal });
});

test("a file on the host is placed without a claim, and claimed once an agent has read it", () => {
  const local = model({ source: "file:///models/tiny.gguf" });
  expect(resolve(local)).toMatchObject({ claim: { at: "hostDecides" } });
  expect(resolve(local, {}, [found(2 * GIB, GGUF)])).toMatchObject({
    claim: { at: "estimated", memory: { weightsBytes: 2 * GIB } },
  });
  expect(resolve(local, {}, [found(2 * GIB)])).toMatchObject({
    claim: { at: "estimated", memory: { claimBytes: 2 * GIB } },
  });
});

test("where the source delivered more than its header told, what is on a host counts, and never less", () => {
  const remote = model({}, { weightsBytes: GIB, sizeBytes: GIB + 1024, gguf: GGUF });
  const has = (sizeBytes: number, changes: object = {}, gguf: object = GGUF) => {
    const file = { source: remote.spec.source, files: [], ...changes };
    const status = { model: { sizeBytes, gguf } };
    const replica = { metadata: { name: "chat-0-a" }, spec: { template: { model: file } }, status };
    return resolve(remote, {}, [replica as unknown as InferenceReplica]);
  };
  const told = resolve(remote);
  const claim = (weightsBytes: number) => ({ claim: { at: "estimated", memory: { weightsBytes } } });
  expect(told).toMatchObject(claim(GIB));
  expect(has(3 * GIB)).toMatchObject(claim(3 * GIB));
  const deeper = has(3 * GIB, {}, { ...GGUF, layerCount: 32 });
  expect(deeper).toMatchObject({ claim: { memory: { kvBytes: 32 * 4096 * 2 * 8 * 64 * 2 } } });
  expect(has(GIB + 1024)).toEqual(told);
  expect(has(GIB / 2)).toEqual(told);
  // Another file of that source, as before a change of spec.files or spec.sha256.
  expect(has(3 * GIB, { files: ["other.gguf"] })).toEqual(told);
  expect(has(3 * GIB, { sha256: "0".repeat(64) })).toEqual(told);
});

test("what is learned of the file changes no revision", () => {
  const local = model({ source: "file:///models/tiny.gguf" });
  const before = resolve(local);
  const after = resolve(local, {}, [found(2 * GIB, GGUF)]);
  if (before.at !== "resolved" || after.at !== "resolved") throw new Error("both resolve");
  expect(after.template.revision).toBe(before.template.revision);
});
