/** An argument that a setting covers means the same as the setting, for everything that reads a service. */
import { describe, expect, test } from "vitest";
import { resolvePods } from "../../controller/pods/workload/resolve.ts";
import { planScaler } from "../../controller/services/autoscaling/scaler.ts";
import { servedModel } from "../../gateway/models/served-model.ts";
import { needOf } from "../../server/extender/decide.ts";
import { type BackendRuntimeSpec, backendRuntimeSchema } from "../../src/api/backend-runtime.ts";
import { hostSchema } from "../../src/api/host.ts";
import { type InferenceService, inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { type Model, modelSchema } from "../../src/api/model.ts";
import type { BackendRevision } from "../../src/capacity/backend.ts";
import { subjectOf } from "../../src/capacity/benchmark/subject.ts";
import { NO_BENCHMARKS } from "../../src/capacity/benchmark/table.ts";
import { fitOfService } from "../../src/capacity/fit/service-fit.ts";
import { argumentsOfFlavor, withArguments } from "../../src/capacity/flavors/apply.ts";
import { resolveService, settingsOnHosts } from "../../src/capacity/resolve.ts";
import { GGUF } from "../../src/capacity/testing/models.ts";

const SETTINGS = { parallelSlots: 8, contextSize: 65_536, cacheTypeK: "q8_0", gpuLayers: 9 };
const ARGUMENTS = ["-np", "8", "--ctx-size=65536", "-ctk", "q8_0", "-ngl", "9"];
const FREE = ["--seed", "1"];

interface Given {
  readonly service: InferenceService;
  readonly backend?: BackendRevision | undefined;
  readonly params?: { readonly args: string[] } | undefined;
}

function model(status: object = {}): Model {
  return modelSchema.parse({
    metadata: { name: "m", namespace: "team", generation: 1 },
    spec: { source: "hf://org/m/m.gguf", hardware: { accelerator: "cuda" } },
    status: {
      ...{ phase: "Ready", observedGeneration: 1, format: "gguf", gguf: GGUF, files: ["m.gguf"] },
      ...{ sizeBytes: 4e9, weightsBytes: 4e9, sha256: "c0ffee", cacheKey: "key" },
      cache: { phase: "Ready", reason: "", message: "", claimName: "c", folder: "f", file: "m.gguf" },
      ...status,
    },
  });
}

function serviceWith(spec: object): InferenceService {
  return inferenceServiceSchema.parse({
    metadata: { name: "chat", namespace: "team", uid: "u" },
    spec: { modelRef: "m", autoscaling: { maxReplicas: 3 }, ...spec },
  });
}

function backendWith(args: readonly string[]): BackendRevision {
  const spec: BackendRuntimeSpec = backendRuntimeSchema.parse({
    metadata: { name: "mine" },
    spec: { engine: "llamacpp", recommendedConfigs: [{ name: "default", args }] },
  }).spec;
  return { name: "mine", spec };
}

/** As the controller has written it. */
function reported({ service, backend, params }: Given): InferenceService {
  const resolution = resolveService({
    service,
    backend,
    params,
    model: model(),
    loraModels: [],
    replicas: [],
  });
  if (resolution.at === "blocked") throw new Error(resolution.message);
  const { inheritedSettings } = resolution;
  return { ...service, status: { runtime: "llamacpp", inheritedSettings } };
}

const host = hostSchema.parse({
  metadata: { name: "mini" },
  spec: { addresses: ["10.0.0.1"] },
  status: {
    info: { os: "darwin", chip: "Apple M4" },
    memory: { totalBytes: 16e9, gpuBudgetBytes: 5e9 },
    runtimes: [{ name: "llamacpp" }],
  },
});

const settings = { images: {} };
const READERS: Readonly<Record<string, (given: Given) => unknown>> = {
  "the gateway": (given) => {
    const { slots, contextLength } = servedModel(reported(given), []);
    return { slots, contextLength };
  },
  "the autoscaler": (given) =>
    planScaler({
      ...{ service: reported(given), on: "Hosts", runtime: "llamacpp", gauges: undefined, hasKEDA: false },
      settings: { externalMetrics: "ours", loadEndpoint: undefined },
      defaultTransport: "Direct",
    }),
  "kube-scheduler's extender": (given) => {
    const pod = {
      metadata: { name: "chat-1", namespace: "team", uid: "u", labels: {} },
      spec: { containers: [{ resources: { limits: { "nvidia.com/gpu": "1" } } }] },
    };
    return needOf(pod, reported(given), model(), NO_BENCHMARKS).memoryPerGpu ?? "partly offloaded";
  },
  "a benchmark": (given) => subjectOf(model(), reported(given), { runtime: "llamacpp" }),
  "the template of a host": (given) => {
    const { service, backend, params } = given;
    const found = resolveService({ service, backend, params, model: model(), loraModels: [], replicas: [] });
    return found.at === "blocked" ? found : [found.template, found.claim];
  },
  "the fit of a service": ({ service, backend, params }) => {
    const objects = { service, backend, params, model: model(), loraModels: [], hosts: [host] };
    return fitOfService({ ...objects, replicas: [], services: [] }, 0).report;
  },
  "the preflight of a Model that is not read yet": ({ service, backend, params }) => [
    settingsOnHosts({ service, backend, params }, model({ phase: "Pending", gguf: undefined })),
  ],
  pods: (given) => {
    const { backend, params } = given;
    const applied = withArguments(given.service.spec, params, "llamacpp");
    const service = { ...given.service, spec: { ...given.service.spec, ...applied } };
    const inherited = [argumentsOfFlavor(given.service.spec, applied)];
    const parts = { service, backend, inherited, model: model(), loraModels: [], settings };
    const found = resolvePods(parts);
    if (found.at === "blocked") return found;
    return [found.workload.deployment.spec.template.spec, found.need.settings, found.need.claimBytes("cuda")];
  },
};

const own = (spec: object) => ({ service: serviceWith(spec) });
const ofBackend = (spec: object, args: readonly string[]): Given => ({
  service: serviceWith({ backendRuntime: { name: "mine" }, ...spec }),
  backend: backendWith(args),
});

describe.each(Object.entries(READERS))("%s", (_, read) => {
  const expected = read(own({ ...SETTINGS, extraArgs: FREE }));

  test("sees the settings at all", () => {
    expect(read(own({ extraArgs: FREE }))).not.toEqual(expected);
  });

  test("reads arguments of the service as settings", () => {
    expect(read(own({ extraArgs: [...ARGUMENTS, ...FREE] }))).toEqual(expected);
  });

  test("reads arguments of a BackendRuntime as settings", () => {
    expect(read(ofBackend({}, [...ARGUMENTS, ...FREE]))).toEqual(read(ofBackend(SETTINGS, FREE)));
    // A setting of the service counts instead.
    const { contextSize } = SETTINGS;
    const given = { ...SETTINGS, contextSize: contextSize / 2 };
    expect(read(ofBackend({ contextSize: contextSize / 2 }, [...ARGUMENTS, ...FREE]))).toEqual(
      read(ofBackend(given, FREE)),
    );
  });

  test("reads arguments of a flavor as settings", () => {
    const params = { args: [...ARGUMENTS, ...FREE] };
    expect(read({ ...own({}), params })).toEqual(expected);
  });
});
