/** Weights on the disk of a node: what an installation allows, and how a pod mounts it. */
import { expect, test } from "vitest";
import { inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { modelSchema } from "../../../src/api/model.ts";
import { podsConfigSchema } from "../config.ts";
import { desiredCacheOf, weightsOnNode } from "./cache-eligibility.ts";
import type { CacheSettings } from "./contract.ts";
import { resolvePods } from "./resolve.ts";

const hostPaths = ["/srv", "/srv/models"];
const fetch: CacheSettings = {
  imagePullSecrets: [],
  cacheSize: "100Gi",
  cacheAccessMode: "ReadWriteOnce",
  hfEndpoint: "https://huggingface.co",
  allowLoopback: false,
  allowPrivate: false,
  allowNetworks: [],
  hostPaths,
};
const modelOf = (source: string, spec: object = {}) =>
  modelSchema.parse({
    metadata: { name: "m", namespace: "a" },
    spec: { source, hardware: { accelerator: "cpu" }, ...spec },
    status: { phase: "Pending", reason: "ReadByHost" },
  });
const serviceOf = (spec: object = {}) =>
  inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "a" },
    spec: { modelRef: "m", ...spec },
  });

test.each<[source: string, spec: object, expected: object | undefined]>([
  [
    "file:///srv/models/qwen/m.gguf",
    {},
    { hostPath: "/srv/models", folder: "qwen", file: "m.gguf", isFolder: false },
  ],
  [
    "file:///srv/models//m.gguf",
    {},
    { hostPath: "/srv/models", folder: "", file: "m.gguf", isFolder: false },
  ],
  ["/srv/other/m.gguf", {}, { hostPath: "/srv", folder: "other", file: "m.gguf", isFolder: false }],
  [
    "file:///srv/models/org/llama",
    { format: "safetensors" },
    { hostPath: "/srv/models", folder: "org", file: "llama", isFolder: true },
  ],
  ["file:///srv2/m.gguf", {}, undefined],
  ["file:///srv", {}, undefined],
  ["file:///etc/m.gguf", {}, undefined],
  ["hf://srv/models", {}, undefined],
])("%s is mounted from the longest folder that is allowed, or not at all", (source, spec, expected) => {
  expect(weightsOnNode(modelOf(source, spec), fetch)).toEqual(expected);
  expect(weightsOnNode(modelOf(source, spec))).toBeUndefined();
});

test.each([
  "file:///srv/models/../../etc/m.gguf",
  "file:///srv/models/%2e%2e/m.gguf",
  "file://srv/models/m.gguf",
])("%s is no source", (source) => {
  expect(() => weightsOnNode(modelOf(source), fetch)).toThrow(/the path holds '\.\.'|not absolute/);
});

test.each(["models", "/", "/srv/", "/srv/../etc", "/srv//models", "/srv/.", "/srv,etc"])(
  "an administrator cannot allow %s",
  (text) => {
    expect(podsConfigSchema.safeParse({ hostPaths: text }).success).toBe(false);
  },
);

test("a pod mounts the allowed folder read-only, and only its engine's part of it", () => {
  const model = modelOf("file:///srv/models/qwen/m.gguf");
  const service = serviceOf({ modelCache: { persistence: "Ephemeral" } });
  expect(desiredCacheOf(model, [service], fetch)).toEqual({ at: "none" });
  const resolution = resolvePods({ service, model, loraModels: [], settings: { images: {}, fetch } });
  if (resolution.at === "blocked") throw new Error(resolution.message);
  const { containers, volumes, initContainers } = resolution.workload.deployment.spec.template.spec;
  expect(initContainers).toBeUndefined();
  expect(volumes).toContainEqual({ name: "node-0", hostPath: { path: "/srv/models", type: "Directory" } });
  const [engine] = containers;
  expect(engine?.volumeMounts).toContainEqual({
    name: "node-0",
    mountPath: "/models",
    readOnly: true,
    subPath: "qwen",
  });
  expect(engine?.args).toContain("/models/m.gguf");
});

test.each<[source: string, spec: object, message: RegExp | undefined]>([
  ["file:///srv/models/m.gguf", { sha256: "a".repeat(64) }, /spec\.sha256 .*remove/],
  ["file:///srv/models/qwen", {}, /spec\.source names no file.*\.gguf/],
  ["file:///srv/models/qwen", { format: "gguf", quantization: "Q4_K_M" }, /spec\.source names no file/],
  ["file:///srv/models/m.gguf", { ignorePatterns: ["*.gguf"] }, /spec\.ignorePatterns .*remove/],
  ["file:///srv/models/llama", { format: "safetensors", ignorePatterns: ["*.bin"] }, /spec\.ignorePatterns/],
  [
    "file:///srv/models/llama",
    { format: "safetensors", quantization: "awq", hardware: { accelerator: "cuda" } },
    undefined,
  ],
])("pods refuse %s with %j, which only hosts can honor", (source, spec, message) => {
  const model = modelOf(source, spec);
  const refusal = message && { code: "SourceNotSupported", message: expect.stringMatching(message) };
  expect(desiredCacheOf(model, [serviceOf()], fetch)).toEqual(
    refusal ? { at: "refused", ...refusal } : { at: "none" },
  );
  const onHosts = serviceOf({ placement: { on: "Hosts" } });
  expect(desiredCacheOf(model, [onHosts], fetch)).toEqual({ at: "none" });
  const resolution = resolvePods({
    service: serviceOf(),
    model,
    loraModels: [],
    settings: { images: {}, fetch },
  });
  expect(resolution).toMatchObject(refusal ? { at: "blocked", ...refusal } : { at: "resolved" });
});

test.each<[extraVolumeMounts: readonly object[], code: string | undefined]>([
  [[{ name: "node-0", mountPath: "/w" }], "VolumeReserved"],
  [[{ name: "node-0", mountPath: "/models" }], "VolumeReserved"],
  [[{ name: "node-12", mountPath: "/w", readOnly: true }], "VolumeReserved"],
  [[{ name: "node-data", mountPath: "/w" }], undefined],
])("users who mount %j get %s", (extraVolumeMounts, code) => {
  const service = serviceOf({ extraVolumeMounts, podSecurityContext: { runAsUser: 0 } });
  const model = modelOf("file:///srv/models/qwen/m.gguf");
  const resolution = resolvePods({ service, model, loraModels: [], settings: { images: {}, fetch } });
  expect(resolution.at === "blocked" ? resolution.code : undefined).toBe(code);
});

test("a path that is not allowed is refused with the value to set", () => {
  const model = modelOf("file:///data/m.gguf");
  const resolution = resolvePods({
    service: serviceOf(),
    model,
    loraModels: [],
    settings: { images: {}, fetch },
  });
  expect(resolution).toMatchObject({
    at: "blocked",
    code: "SourceNotSupported",
    message: expect.stringMatching(
      /\/data\/m\.gguf is below none of the folders in pods\.hostPaths of the chart/,
    ),
  });
});
