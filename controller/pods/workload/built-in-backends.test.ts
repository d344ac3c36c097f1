/** The built-in BackendRuntimes configure nothing: pods and processes are those of spec.runtime. A user's own loses nothing. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { type BackendRuntime, backendRuntimeSchema } from "../../../src/api/backend-runtime.ts";
import { inferenceServiceSchema } from "../../../src/api/inference-service/index.ts";
import { modelSchema } from "../../../src/api/model.ts";
import { resolveService } from "../../../src/capacity/resolve.ts";
import { builtInBackends } from "../../../src/engines/built-in-backends.ts";
import { ENGINES } from "../../../src/engines/registry.ts";
import { resolvePods } from "./resolve.ts";

const IMAGE = "registry.example/engine:1";
const GGUF = { layerCount: 16, headCountKV: 8, keyLength: 64, valueLength: 64, embeddingSize: 2048 };
const EXAMPLE = new URL("../../../examples/backends/tgi.yaml", import.meta.url);

function serviceWith(spec: object) {
  const metadata = { name: "chat", namespace: "a", uid: "u" };
  return inferenceServiceSchema.parse({ metadata, spec: { modelRef: "m", ...spec } });
}

function modelOf(format: string, accelerator: string) {
  const isFile = format === "gguf";
  const cache = {
    phase: "Ready",
    reason: "",
    message: "",
    claimName: "c",
    folder: "f",
    file: isFile ? "m.gguf" : "weights",
  };
  return modelSchema.parse({
    metadata: { name: "m", namespace: "a", generation: 1 },
    spec: {
      source: format === "ollama" ? "ollama://qwen3:4b" : `hf://org/m${isFile ? "/m.gguf" : ""}`,
      format,
      hardware: { accelerator },
    },
    status: {
      phase: "Ready",
      observedGeneration: 1,
      format,
      sizeBytes: 1e9,
      gguf: format === "safetensors" ? undefined : GGUF,
      files: [isFile ? "m.gguf" : "model.safetensors"],
      cache,
    },
  });
}

type Accelerated = { readonly format: string; readonly accelerator: string };

function podsOf(spec: object, { format, accelerator }: Accelerated, backend?: BackendRuntime) {
  const resolved = resolvePods({
    service: serviceWith({ placement: { on: "Pods" }, ...spec }),
    model: modelOf(format, accelerator),
    loraModels: [],
    settings: { images: {} },
    backend: backend && { name: backend.metadata.name, spec: backend.spec },
  });
  if (resolved.at === "blocked") throw new Error(resolved.message);
  const { template } = resolved.workload.deployment.spec;
  const { runtime, unhonored, notes } = resolved;
  return { template, runtime, unhonored, notes };
}

function onHostsOf(spec: object, format: string, backend?: BackendRuntime) {
  const resolved = resolveService({
    service: serviceWith(spec),
    model: modelOf(format, "metal"),
    loraModels: [],
    replicas: [],
    backend: backend && { name: backend.metadata.name, spec: backend.spec },
  });
  if (resolved.at === "blocked") throw new Error(resolved.message);
  const { template, unhonored, notes } = resolved;
  return { template, unhonored, notes };
}

function builtIn(name: string): BackendRuntime {
  const found = builtInBackends().find(({ metadata }) => metadata.name === name);
  if (found === undefined) throw new Error(`${name} is not built in`);
  return found;
}

const inPods = ENGINES.filter(({ pod, runtime }) => pod !== undefined && runtime !== "generic");
const onHosts = ENGINES.filter(({ host, runtime }) => host !== undefined && runtime !== "generic");

test("every runtime is an object that the schema accepts unchanged", () => {
  expect(builtInBackends().map(({ metadata }) => metadata.name)).toEqual([
    ...ENGINES.flatMap(({ runtime }) => (runtime === "generic" ? [] : [runtime])),
    "mlx-lm",
  ]);
  for (const object of builtInBackends()) expect(backendRuntimeSchema.parse(object)).toEqual(object);
});

test.for(inPods)("pods of BackendRuntime $runtime are those of the runtime", (entry) => {
  const { runtime, formats, accelerators } = entry;
  for (const accelerator of accelerators.filter((one) => one !== "metal")) {
    const on = { format: formats[0] ?? "", accelerator };
    // Without a pinned image for the accelerator, the service has its own.
    const own = entry.pod?.images[accelerator] === undefined ? { image: IMAGE } : {};
    const backend = builtIn(runtime);
    const given = podsOf({ ...own, backendRuntime: { name: runtime } }, on, backend);
    expect(given).toEqual(podsOf({ ...own, runtime }, on));
  }
});

test.for(onHosts)("processes of BackendRuntime $runtime are those of the runtime", (entry) => {
  const { runtime, formats } = entry;
  const format = formats[0] ?? "";
  const given = onHostsOf({ backendRuntime: { name: runtime } }, format, builtIn(runtime));
  expect(given).toEqual(onHostsOf({ runtime }, format));
});

const DRAFTING = ["llamacpp", "vllm"];

test("every built-in BackendRuntime has the configurations of llmaz that mean something for it", () => {
  for (const { metadata, spec } of builtInBackends())
    expect(spec.recommendedConfigs, metadata.name).toEqual([
      { name: "default" },
      ...(DRAFTING.includes(metadata.name) ? [{ name: "speculative-decoding" }] : []),
    ]);
});

test.for(builtInBackends())("$metadata.name: configuration default changes nothing", (backend) => {
  const { name } = backend.metadata;
  const entry = ENGINES.find(({ runtime }) => runtime === backend.spec.engine);
  const format = backend.spec.formats?.[0] ?? "";
  const given = (config?: string) => ({ backendRuntime: { name, config } });
  if (entry?.host !== undefined)
    expect(onHostsOf(given("default"), format, backend)).toEqual(onHostsOf(given(), format, backend));
  else {
    const on = { format, accelerator: backend.spec.accelerators?.[0] ?? "" };
    const podsFor = (config?: string) => podsOf({ image: IMAGE, ...given(config) }, on, backend);
    expect(podsFor("default")).toEqual(podsFor());
  }
});

test.each([
  ["llamacpp", "speculative-decoding", "needs a draft model: add one with role draft to spec.modelRefs"],
  ["sglang", "speculative-decoding", "it has default"],
  ["llamacpp", "fast", "it has default, speculative-decoding"],
])("%s refuses configuration %s if that means nothing", (name, config, says) => {
  const on = { format: name === "sglang" ? "safetensors" : "gguf", accelerator: "cuda" };
  expect(() => podsOf({ backendRuntime: { name, config } }, on, builtIn(name))).toThrow(says);
});

test("a draft model that does not exist yet is reported as missing", () => {
  const speculativeDecoding = { type: "draft", draftModelRef: "small" };
  const spec = { backendRuntime: { name: "llamacpp", config: "speculative-decoding" }, speculativeDecoding };
  const on = { format: "gguf", accelerator: "cpu" };
  expect(() => podsOf(spec, on, builtIn("llamacpp"))).toThrow("Model small does not exist");
});

test("the arguments of llmaz's samples are settings, on hosts and in pods, and a note says so", () => {
  const spec = { backendRuntime: { name: "llamacpp", config: "default" }, extraArgs: ["-fa", "--seed", "1"] };
  const same = { backendRuntime: { name: "llamacpp" }, flashAttention: true, extraArgs: ["--seed", "1"] };
  const notes = ["extraArgs: -fa is set as flashAttention"];
  const backend = builtIn("llamacpp");
  const on = { format: "gguf", accelerator: "cpu" };
  expect(podsOf(spec, on, backend)).toEqual({ ...podsOf(same, on, backend), notes });
  expect(onHostsOf(spec, "gguf", backend)).toEqual({ ...onHostsOf(same, "gguf", backend), notes });
  const both = { ...spec, flashAttention: false };
  expect(() => podsOf(both, on, backend)).toThrow("-fa contradicts spec.flashAttention, which is false");
  // Without a runtime, Ollama would serve the file and ignore the arguments.
  const anyRuntime = { extraArgs: ["-fa"], flashAttention: false };
  expect(() => onHostsOf(anyRuntime, "gguf")).toThrow("-fa contradicts spec.flashAttention, which is false");
});

test("BackendRuntime mlx-lm runs the command that runtime generic has for MLX, under its name", () => {
  const given = onHostsOf({ backendRuntime: { name: "mlx-lm" } }, "mlx", builtIn("mlx-lm"));
  const plain = onHostsOf({ runtime: "generic" }, "mlx");
  expect(given.template.engine.program).toEqual({ ...plain.template.engine.program, backend: "mlx-lm" });
  expect(given.unhonored).toEqual(plain.unhonored);
});

test("a version replaces the tag of the image that the runtime has for the accelerator", () => {
  const on = { format: "safetensors", accelerator: "rocm" };
  const spec = { backendRuntime: { name: "sglang", version: "v0.6.0-rocm" } };
  const [engine] = podsOf(spec, on, builtIn("sglang")).template.spec.containers;
  expect(engine?.image).toBe("docker.io/lmsysorg/sglang:v0.6.0-rocm");
});

test("a BackendRuntime that a user writes for TGI makes the pods of the built-in one, except for three differences", () => {
  const [document] = parseAllDocuments(readFileSync(EXAMPLE, "utf8"));
  const own = backendRuntimeSchema.parse(document?.toJS());
  const on = { format: "safetensors", accelerator: "cuda" };
  const given = podsOf({ backendRuntime: { name: "my-tgi" } }, on, own);
  const ours = podsOf({ runtime: "tgi" }, on);
  expect(given.unhonored).toEqual(ours.unhonored);
  expect(differences(given.template, ours.template)).toEqual([
    // The hash of the template.
    "metadata.labels.metalbridge.dev/revision",
    // The estimate of runtime generic, if resources.memory is not set.
    "spec.containers.0.resources.requests.memory",
    // Programs of users may write into their image.
    "spec.containers.0.securityContext.readOnlyRootFilesystem",
  ]);
});

/** Paths at which the two differ. */
function differences(one: unknown, other: unknown, at: readonly string[] = []): readonly string[] {
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null)
    return Object.is(one, other) ? [] : [at.join(".")];
  const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...keys].flatMap((key) =>
    differences(Reflect.get(one, key), Reflect.get(other, key), [...at, key]),
  );
}
