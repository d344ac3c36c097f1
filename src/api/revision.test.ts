import { expect, test } from "vitest";
import { inferenceReplicaSpecSchema, type ReplicaTemplate } from "./inference-replica.ts";
import { revisionOfTemplate } from "./revision.ts";

const template: ReplicaTemplate = {
  hostName: "mac-1",
  serviceName: "chat",
  serviceUid: "uid-1",
  revision: "",
  runtime: "llamacpp",
  model: { source: "hf://org/repo/a.gguf", files: [], format: "gguf", refreshPolicy: "IfNotPresent" },
  engine: { mode: "chat", contextSize: 4096, parallelSlots: 1 },
};

test("a revision is stable across releases: this one is written down", () => {
  expect(revisionOfTemplate(template)).toBe("aea0ec019f");
});

test("host, revision, order of keys and absent fields do not count", () => {
  const { model, ...rest } = template;
  const reordered = { model, ...rest, hostName: "mac-2", revision: "abc", draft: undefined };
  expect(revisionOfTemplate(reordered)).toBe(revisionOfTemplate(template));
});

test("what was only learned about the weights does not count", () => {
  const learned = { ...template.model, sizeBytes: 42, gguf: { architecture: "llama" } };
  expect(revisionOfTemplate({ ...template, model: learned })).toBe(revisionOfTemplate(template));
  const adapted = (model: ReplicaTemplate["model"]) => ({ ...template, loraAdapters: [{ model, scale: 1 }] });
  expect(revisionOfTemplate(adapted(learned))).toBe(revisionOfTemplate(adapted(template.model)));
});

test("every input counts", () => {
  const changed: ReplicaTemplate[] = [
    { ...template, serviceUid: "uid-2" },
    { ...template, runtime: "ollama" },
    { ...template, model: { ...template.model, sha256: "a".repeat(64) } },
    { ...template, engine: { ...template.engine, contextSize: 8192 } },
    { ...template, draft: template.model },
    { ...template, loraAdapters: [{ model: template.model, scale: 1 }] },
    { ...template, loraAdapters: [{ model: template.model, scale: 0.5 }] },
    { ...template, auth: { secretName: "key", key: "apiKey" } },
  ];
  const revisions = new Set([template, ...changed].map(revisionOfTemplate));
  expect(revisions.size).toBe(changed.length + 1);
});

test("the defaults of the API server change no revision", () => {
  const { files: _files, refreshPolicy: _policy, ...model } = template.model;
  const read = inferenceReplicaSpecSchema.parse({
    template: { ...template, revision: "x", model },
    memory: { claimBytes: 1 },
  });
  expect(revisionOfTemplate(read.template)).toBe(revisionOfTemplate(template));
});
