/** The subject of a benchmark: the engine settings of a service that change the speed of a single request. Pure. */

import {
  BENCHMARK_RUNS,
  BENCHMARK_TOKENS,
  BENCHMARK_WARMUPS,
  type BenchmarkPlan,
  type BenchmarkResult,
  type BenchmarkSettings,
} from "../../api/benchmark.ts";
import { defaultSpeedOf, SPEED_SETTINGS, speedSettingsOf } from "../../api/engine-settings.ts";
import { MetalbridgeError } from "../../api/errors.ts";
import type { Runtime } from "../../api/fields/runtimes.ts";
import type { InferenceService, InferenceServiceSpec } from "../../api/inference-service/index.ts";
import { mainModelOf } from "../../api/inference-service/roles.ts";
import type { Model } from "../../api/model.ts";
import { engineDescription } from "../../engines/registry.ts";
import { publicSource } from "../../models/source/parse.ts";
import { goDurationSeconds } from "../../util/go-duration.ts";
import { effectiveSpec } from "../effective-spec.ts";
import { formatOf, quantizationOfWeights } from "../resolve.ts";
import { platformOf, runsOn } from "../runs-on.ts";
import { candidateRuntimes } from "../runtime-choice.ts";
import {
  type BenchmarkSubject,
  type BenchmarkTable,
  benchmarkKey,
  modelContentOf,
  resultFor,
} from "./table.ts";

/** The engine that runs the Model; a host has no `gpusPerPod`. */
export interface SubjectEngine {
  readonly runtime: Runtime;
  /** Number of GPUs of each pod, 0 for none. Absent on hosts. */
  readonly gpusPerPod?: number | undefined;
  /** Image of the pods. It counts if a BackendRuntime chooses it. */
  readonly image?: string | undefined;
}

/** Values that leave the speed unchanged, so that a service that states a default shares its result. */
const DEFAULTS: Readonly<Record<string, string | undefined>> = {
  ...Object.fromEntries(SPEED_SETTINGS.map((name) => [name, defaultSpeedOf(name)])),
  gpus: "1",
  gpuResource: "nvidia.com/gpu",
};

/**
 * The subject of a Model as a service runs it, or with default settings without a service. Undefined if the source is not resolved,
 * if the Model or the service does not generate tokens, or if the engine gets arguments that no benchmark program accepts.
 */
export function subjectOf(
  model: Model,
  service: Pick<InferenceService, "spec" | "status"> | undefined,
  { runtime, gpusPerPod, image }: SubjectEngine,
): BenchmarkSubject | undefined {
  const content = modelContentOf(model);
  const spec: Partial<InferenceServiceSpec> = service === undefined ? {} : effectiveSpec(service, runtime);
  const { mode = "chat" } = spec;
  const isReranker = model.status?.gguf?.ranking === true;
  if (content === undefined || mode !== "chat" || isReranker) return undefined;
  const isPod = gpusPerPod !== undefined;
  const { host, pod } = engineDescription(runtime) ?? {};
  const honored: readonly string[] = (isPod ? pod : host)?.settings ?? [];
  // The benchmark programs do not know them, and they change which device computes. Other extra arguments change the speed less.
  if (honored.includes("tensorOverrides") && (spec.tensorOverrides ?? []).length > 0) return undefined;
  const gpuLayers = spec.gpuLayers ?? model.spec.hardware?.gpu?.layers;
  const values = speedSettingsOf({ ...spec, gpuLayers });
  const settings = Object.entries(values).filter(([name]) => honored.includes(name));
  const ofPod = isPod ? Object.entries(podValues(model, withImage(spec, runtime, image), gpusPerPod)) : [];
  return { content, runtime, settings: textsOf([...settings, ...ofPod]) };
}

/**
 * The image of a BackendRuntime is like spec.image. With the image of the runtime itself, which may have the prefix of a mirror, a
 * service shares the result of those without BackendRuntime.
 */
function withImage(spec: Partial<InferenceServiceSpec>, runtime: Runtime, image = "") {
  if (spec.backendRuntime === undefined) return spec;
  const pinned = Object.values(engineDescription(runtime)?.pod?.images ?? {});
  return { ...spec, image: pinned.some((one) => image.endsWith(one)) ? undefined : image };
}

/** The image of a pod depends on its accelerator, which the class of the machine implies unless it is Vulkan. */
function podValues(
  { spec: { hardware } }: Model,
  { image, resources }: Partial<InferenceServiceSpec>,
  gpus: number,
) {
  const { accelerator, gpu } = hardware ?? {};
  const isVulkan = accelerator === "vulkan" || gpu?.runtime === "vulkan";
  const gpuResource = resources?.gpuSharing?.profile ?? gpu?.resourceName;
  const gpuValues = gpus === 0 ? {} : { gpus, gpuResource, accelerator: isVulkan ? "vulkan" : undefined };
  return { ...gpuValues, image };
}

/**
 * What hosts measure of a Model: each set of settings of its services, or the default settings without a service. Empty if nothing
 * of it runs on hosts, or if no tool measures its runtime there.
 */
export function subjectsOnHosts(model: Model, services: readonly InferenceService[]): BenchmarkSubject[] {
  const subjects = runningOn("Hosts", model, services).flatMap((service) => {
    const runtime = measurableRuntime(model, service);
    return (runtime && subjectOf(model, service, { runtime })) ?? [];
  });
  return [...new Map(subjects.map((subject) => [benchmarkKey(subject, ""), subject])).values()];
}

/** Services that run the Model on the platform; undefined stands for a Model that no service uses yet. */
export function runningOn(
  platform: "Hosts" | "Pods",
  model: Model,
  services: readonly InferenceService[],
): readonly (InferenceService | undefined)[] {
  const other = platform === "Hosts" ? "Pods" : "Hosts";
  const own = services.filter(({ spec }) => mainModelOf(spec) === model.metadata.name);
  if (own.length > 0) return own.filter((service) => runsOn(service, model) !== other);
  return platformOf(model) === platform ? [undefined] : [];
}

/** The first runtime that may serve the Model on hosts and that a tool measures. */
function measurableRuntime(model: Model, service: InferenceService | undefined): Runtime | undefined {
  const { runtime, mode = "chat" } = service?.spec ?? {};
  try {
    const candidates = candidateRuntimes(runtime, formatOf(model), mode);
    return candidates.find((one) => engineDescription(one)?.host?.benchmarkTool !== undefined);
  } catch (error) {
    if (error instanceof MetalbridgeError) return undefined;
    throw error;
  }
}

/** Name of the Model in results, without credentials of its source. */
export function identityOfModel(model: Model): Pick<BenchmarkResult, "model" | "sha256" | "quantization"> {
  return {
    model: publicSource(model.spec.source),
    sha256: model.status?.sha256,
    quantization: quantizationOfWeights(model)?.slice(0, 64),
  };
}

/** spec.benchmark of the Model with all defaults. */
export function benchmarkPlanOf({ spec }: Pick<Model, "spec">): BenchmarkPlan {
  const {
    warmups = BENCHMARK_WARMUPS,
    runs = BENCHMARK_RUNS,
    tokens = BENCHMARK_TOKENS,
    minDuration = "",
  } = spec.benchmark ?? {};
  const seconds = goDurationSeconds(minDuration) ?? 0;
  return { warmups, runs, tokens, ...(seconds > 0 ? { minSeconds: Math.min(seconds, 86_400) } : {}) };
}

const LENGTHS: Readonly<Record<string, number>> = { image: 512, gpuResource: 253 };

/** Texts of the values that differ from the defaults. */
function textsOf(values: readonly (readonly [string, string | number | boolean | undefined])[]) {
  const texts = values.flatMap(([name, value]) => {
    const text = String(value).slice(0, LENGTHS[name] ?? 63);
    return value === undefined || text === DEFAULTS[name] ? [] : [[name, text]];
  });
  return Object.fromEntries(texts) as BenchmarkSettings;
}

/** Device classes in a table; a table does not change. */
const classesIn = new WeakMap<BenchmarkTable, readonly string[]>();

/** Measured generation speed of a single request in tokens per second, by device class. Empty without a subject. */
export function speedsByClass(
  table: BenchmarkTable,
  subject: BenchmarkSubject | undefined,
): Readonly<Record<string, number>> {
  if (subject === undefined) return {};
  const classes = classesIn.get(table) ?? [
    ...new Set([...table.results.values()].map(({ deviceClass }) => deviceClass)),
  ];
  classesIn.set(table, classes);
  const speeds = classes.map((deviceClass) => {
    const result = resultFor(table, subject, deviceClass);
    return result && ([deviceClass, result.generation.median] as const);
  });
  return Object.fromEntries(speeds.filter((speed) => speed !== undefined));
}
