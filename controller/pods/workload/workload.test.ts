/** The objects of a service on Linux nodes, held to readable YAML, and what no pod can be made from. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it, test } from "vitest";
import { RUNTIMES } from "../../../src/api/fields/runtimes.ts";
import { unhonoredFields } from "../../../src/capacity/honored.ts";
import { ENGINES } from "../../../src/engines/registry.ts";
import type { Deployment } from "../../../src/kube/workload-objects.ts";
import { testGoldens } from "../../../test/golden/golden.ts";
import { inputOf, type WorkloadOptions } from "./fixtures/workload-input.ts";
import { buildGroup } from "./group.ts";
import { priorityClasses, priorityClassName } from "./priorities.ts";
import { buildWorkload } from "./workload.ts";

testGoldens(fileURLToPath(new URL("./golden", import.meta.url)), (options: WorkloadOptions) => {
  const input = inputOf(options);
  const unhonored = unhonoredFields(input.service.spec, "Pods", input.runtime);
  const objects = input.service.spec.group === undefined ? buildWorkload(input) : buildGroup(input);
  return { ...objects, ...(unhonored.length === 0 ? {} : { unhonored }) };
});

const weights = { claimName: "cache", folder: "k", file: "m.gguf" };
const cpu = { source: "hf://org/m/m.gguf", hardware: { accelerator: "cpu" } };
const cuda = (gpu: object) => ({ source: "hf://org/m", hardware: { accelerator: "cuda", gpu } });

function build(options: Partial<WorkloadOptions>) {
  return buildWorkload(inputOf({ service: {}, model: cpu, weights, replicas: 1, ...options }));
}

function engineOf({ spec }: Deployment) {
  const [engine] = spec.template.spec.containers;
  if (engine === undefined) throw new Error("no container");
  return engine;
}

describe("refused", () => {
  test.each<[string, Partial<WorkloadOptions>, string, RegExp]>([
    [
      "an image without a tag",
      { service: { image: "ghcr.io/a/b" } },
      "ImageInvalid",
      /neither a tag nor a digest/,
    ],
    [
      "a registry's port is no tag",
      { service: { image: "registry.example:5000/a/b" } },
      "ImageInvalid",
      /neither a tag nor a digest/,
    ],
    ["an image with blanks", { service: { image: "a b:1" } }, "ImageInvalid", /no image reference/],
    ["upper case", { service: { image: "ghcr.io/A/b:1" } }, "ImageInvalid", /no image reference/],
    [
      "a configured image without a tag",
      { settings: { images: { llamacpp: "ghcr.io/a/b" } } },
      "ImageInvalid",
      /the controller's image for llamacpp/,
    ],
    [
      "no image is known",
      { runtime: "vllm", model: { ...cpu, format: "safetensors" } },
      "ImageUnknown",
      /vllm is known for accelerator cpu/,
    ],
    ["a runtime of hosts", { runtime: "omlx" }, "RuntimeMismatch", /does not run in pods/],
    [
      "a resource that is none",
      { model: cuda({ resourceName: "nvidia.com/-gpu" }) },
      "GPURequestInvalid",
      /nvidia\.com\/-gpu is no name/,
    ],
    [
      "a MIG profile in a resource's name",
      { model: cuda({ resourceName: "nvidia.com/mig-10gb" }) },
      "GPURequestInvalid",
      /10gb is no MIG profile/,
    ],
    [
      "several MIG partitions",
      {
        model: cuda({ count: 2 }),
        service: { resources: { gpuSharing: { mode: "partitioned", profile: "1g.10gb" } } },
      },
      "GPURequestInvalid",
      /2 GPUs cannot be MIG partitions/,
    ],
    [
      "MIG of another vendor",
      {
        model: { source: "hf://o/m", hardware: { accelerator: "rocm" } },
        service: { resources: { gpuSharing: { mode: "partitioned", profile: "1g.10gb" } } },
      },
      "GPURequestInvalid",
      /NVIDIA's MIG, and the GPU is of amd/,
    ],
    [
      "shares of several GPUs",
      { model: cuda({ count: 2 }), service: { resources: { gpuSharing: { mode: "shared" } } } },
      "GPURequestInvalid",
      /2 GPUs cannot be shared/,
    ],
    [
      "more memory than the GPU has",
      {
        model: cuda({ memory: "16Gi" }),
        service: { resources: { gpuSharing: { mode: "shared", memoryLimitGiB: 20 } } },
      },
      "GPURequestInvalid",
      /20 is more than hardware\.gpu\.memory/,
    ],
    [
      "GPUs of another vendor",
      { model: cuda({ vendor: "amd" }) },
      "GPURequestInvalid",
      /cuda runs on GPUs of nvidia, and hardware\.gpu\.vendor is amd/,
    ],
    [
      "a gap in the split",
      { model: cuda({ count: 2, sharding: { layerSplit: ["0-15", "17-31"] } }) },
      "GPURequestInvalid",
      /a range starts at layer 17 instead of 16/,
    ],
    [
      "an overlap in the split",
      { model: cuda({ count: 2, sharding: { layerSplit: ["0-15", "15-31"] } }) },
      "GPURequestInvalid",
      /a range starts at layer 15 instead of 16/,
    ],
    [
      "a split that ends too early",
      {
        model: cuda({ count: 2, sharding: { layerSplit: ["0-15", "16-30"] } }),
        status: { gguf: { layerCount: 32 } },
      },
      "GPURequestInvalid",
      /covers layers 0 to 30, and the model has 32/,
    ],
    [
      "a split for other GPUs",
      { model: cuda({ count: 3, sharding: { layerSplit: ["0-15", "16-31"] } }) },
      "GPURequestInvalid",
      /2 ranges for 3 GPUs/,
    ],
    [
      "a backward range",
      { model: cuda({ count: 2, sharding: { layerSplit: ["15-0", "16-31"] } }) },
      "GPURequestInvalid",
      /15-0 is no range/,
    ],
    [
      "an absurd range",
      { model: cuda({ count: 2, sharding: { layerSplit: ["0-99999999999999999999", "1-2"] } }) },
      "GPURequestInvalid",
      /is no range/,
    ],
    [
      "more shards than GPUs",
      {
        runtime: "vllm",
        model: { ...cuda({ count: 2 }), format: "safetensors" },
        service: { vllmConfig: { tensorParallelSize: 4 } },
      },
      "GPURequestInvalid",
      /need 4 GPUs, and a pod has 2/,
    ],
    [
      "TLS",
      { service: { endpoint: { tls: { secretRef: { name: "cert" } } } } },
      "GateNotInPods",
      /endpoint\.tls is served by the gate/,
    ],
    [
      "keys for a runtime that checks none",
      { runtime: "generic", service: { image: "a/b:1", auth: { secretRef: { name: "keys" } } } },
      "GateNotInPods",
      /runtime generic cannot check the API keys/,
    ],
    [
      "keys for Ollama",
      { runtime: "ollama", service: { auth: { secretRef: { name: "keys" } } } },
      "GateNotInPods",
      /runtime ollama cannot check the API keys/,
    ],
    [
      "Ollama without a mode for it",
      { runtime: "ollama", service: { mode: "rerank" } },
      "SettingNotSupported",
      /no rerank API/,
    ],
    [
      "a name that Ollama does not have",
      {
        runtime: "ollama",
        service: { endpoint: { modelNames: [{ name: "hf.co/org/model/file.gguf" }] } },
      },
      "SettingNotSupported",
      /model name hf\.co\/org\/model\/file\.gguf in spec\.endpoint/,
    ],
    [
      "a split GGUF for Ollama",
      { runtime: "ollama", status: { files: ["m-1.gguf", "m-2.gguf", "m-3.gguf"] } },
      "EngineSettingsRefused",
      /split into 3 files/,
    ],
    [
      "a source that Ollama does not pull",
      { runtime: "ollama", weights: undefined },
      "WeightsNotCached",
      /pulls only from its own registry and --ollama-registry, and spec\.source is hf:/,
    ],
    ["no weights on a volume", { weights: undefined }, "WeightsNotCached", /reads its weights from a volume/],
    [
      "a source that the engine cannot fetch",
      {
        runtime: "vllm",
        weights: undefined,
        model: { ...cuda({}), source: "https://a.example/m.safetensors" },
      },
      "WeightsNotCached",
      /only hf:\/\//,
    ],
    [
      "an address that is none",
      { service: { bindAddress: "$(reboot)" } },
      "SettingNotSupported",
      /\$\(reboot\) is no IP address/,
    ],
    [
      "a setting that this build does not have",
      { service: { extraArgs: ["--no-such-flag"] } },
      "ExtraArgRefused",
      /--no-such-flag/,
    ],
    [
      "a quantization that this version no longer has",
      {
        runtime: "vllm",
        model: { ...cuda({}), format: "safetensors" },
        service: { vllmConfig: { quantization: "squeezellm" } },
      },
      "SettingNotSupported",
      /vLLM 0\.25\.1 has no squeezellm/,
    ],
    [
      "a mode that the runtime does not serve",
      { runtime: "tgi", model: { ...cuda({}), format: "safetensors" }, service: { mode: "rerank" } },
      "SettingNotSupported",
      /tgi does not serve spec\.mode rerank/,
    ],
    [
      "an unknown placeholder",
      { runtime: "generic", service: { image: "a/b:1", env: [{ name: "A", value: "{{models}}" }] } },
      "CommandInvalid",
      /\{\{models\}\} is not a placeholder/,
    ],
    [
      "a placeholder without a value",
      { runtime: "generic", weights: undefined, service: { image: "a/b:1", args: ["{{model}}"] } },
      "CommandInvalid",
      /\{\{model\}\} has no value/,
    ],
    [
      "one variable that is too long",
      { service: { env: [{ name: "A", value: "x".repeat(131_072) }] } },
      "PodArgumentsTooLong",
      /the longest 131072/,
    ],
    [
      "too many long arguments",
      {
        runtime: "generic",
        service: { image: "a/b:1", args: Array.from({ length: 140 }, () => "x".repeat(4_000)) },
      },
      "PodArgumentsTooLong",
      /at most 524288/,
    ],
  ])("%s", (_, options, code, message) => {
    // An absent setting is one that is not there.
    const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
    const input = inputOf({
      service: {},
      model: cpu,
      replicas: 1,
      weights: "weights" in options ? undefined : weights,
      ...given,
    });
    expect(() => buildWorkload(input)).toThrow(
      expect.objectContaining({ code, message: expect.stringMatching(message) }),
    );
  });
});

describe("quantities", () => {
  it("quantities are passed whatever their size, because the API server validates them", () => {
    const resources = { cpu: 1_000_000, memory: "999999999Ei", ephemeralStorage: "1m" };
    expect(engineOf(build({ service: { resources } }).deployment).resources?.requests).toEqual({
      cpu: "1M",
      memory: "999999999Ei",
      "ephemeral-storage": "1m",
    });
  });
});

it("every runtime for pods has an image with a version", () => {
  const inPods = ENGINES.filter(({ pod }) => pod !== undefined);
  expect(inPods.filter(({ pod }) => pod === undefined).map(({ runtime }) => runtime)).toEqual([]);
  expect(RUNTIMES).toContain("tensorrt-llm");
  for (const { pod, runtime } of inPods) {
    for (const [accelerator, image] of Object.entries(pod?.images ?? {})) {
      expect(image, runtime).toMatch(/^[a-z0-9.-]+\.[a-z]+\/.*:[^:]*[0-9]/);
      expect(image, `${runtime} ${accelerator}`).not.toMatch(/latest/);
    }
  }
});

it.each(["vllm", "sglang"] as const)("%s is given only arguments that its pinned version has", (runtime) => {
  const read = (file: string) =>
    readFileSync(new URL(`../../../src/engines/${runtime}/${file}`, import.meta.url), "utf8");
  const flags = () => Object.keys((JSON.parse(read("fixtures/interop.json")) as { flags: object }).flags);
  const known = new Set(runtime === "vllm" ? flags() : read("fixtures/flags.txt").split("\n"));
  // Both toggles are BooleanOptionalActions, which have a second name.
  const used = [...read("pod.ts").matchAll(/"(--[a-z0-9-]+)"/g)].map(([, flag = ""]) => flag);
  const toggles = [...read("pod.ts").matchAll(/toggle\("([a-z-]+)"/g)].map(([, name]) => `--${name}`);
  expect(used.length).toBeGreaterThan(15);
  expect([...used, ...toggles].filter((flag) => !known.has(flag))).toEqual([]);
});

it("vLLM finishes late requests after SIGTERM, but a user's image may lack that argument", () => {
  const model = { ...cuda({}), format: "safetensors" };
  const of = (service: object, settings: WorkloadOptions["settings"] = {}) =>
    engineOf(build({ runtime: "vllm", model, service, settings }).deployment).args?.includes(
      "--shutdown-timeout",
    );
  expect(of({})).toBe(true);
  expect(of({}, { registryPrefix: "mirror.example/proxy" })).toBe(true);
  expect(of({ image: "vllm/vllm-openai:v0.10.0" })).toBe(false);
  expect(of({}, { images: { vllm: "vllm/vllm-openai:v0.10.0" } })).toBe(false);
});

it("a projector that the source named itself is used like one of the Model", () => {
  const model = { source: "ollama://llava", format: "gguf", hardware: { accelerator: "cpu" } };
  const files = { file: "views/v/model.gguf", projector: "views/v/projector.gguf" };
  const { args = [] } = engineOf(
    build({ model, weights: { claimName: "cache", folder: "k", ...files } }).deployment,
  );
  expect(args[args.indexOf("--mmproj") + 1]).toBe("/models/views/v/projector.gguf");
});

it("a key of the API is never in the arguments, only a reference to its variable", () => {
  const model = { ...cuda({}), format: "safetensors" };
  const auth = { secretRef: { name: "keys" } };
  const { args = [], env = [] } = engineOf(
    build({ runtime: "sglang", model, service: { auth, env: [{ name: "SGLANG_API_KEY", value: "own" }] } })
      .deployment,
  );
  expect(args.join(" ")).not.toContain("api-key");
  expect(env.filter(({ name }) => name === "SGLANG_API_KEY")).toEqual([
    { name: "SGLANG_API_KEY", valueFrom: { secretKeyRef: { name: "keys", key: "apiKey" } } },
  ]);
});

it("a larger model gets more time to start", () => {
  const failures = (sizeBytes: number) =>
    engineOf(build({ status: { sizeBytes } }).deployment).startupProbe?.failureThreshold;
  expect(failures(0)).toBe(1800);
  expect(failures(400e9)).toBe(9800);
});

it("an autoscaler changes neither the strategy nor the disruption budget while it scales", () => {
  const autoscaling = { maxReplicas: 3 };
  const [one, two] = [1, 2].map((replicas) => build({ service: { autoscaling, replicas }, replicas }));
  expect(one?.deployment.spec.replicas).toBe(1);
  expect(two?.deployment.spec).toEqual({ ...one?.deployment.spec, replicas: 2 });
  expect(one?.disruptionBudget).toEqual(two?.disruptionBudget);
  expect(one?.disruptionBudget).toBeDefined();
});

it("each priority has a PriorityClass, in the order of the priorities", () => {
  expect(priorityClasses().map(({ value }) => value)).toEqual([1_000_000, 100_000, 10_000, 1000, 100]);
  expect(priorityClasses().map(({ metadata }) => metadata.name)).toContain(priorityClassName("batch"));
});
