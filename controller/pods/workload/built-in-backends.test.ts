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
  return { template, runtime: resolved.runtime, unhonored: resolved.unhonored };
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
  return { template: resolved.template, unhonored: resolved.unhonored };
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
