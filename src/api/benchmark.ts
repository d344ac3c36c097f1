/** Benchmarks: how a model is measured on a class of machines, and the result. */
import { z } from "zod";
import { SPEED_SETTINGS, type SpeedSetting } from "./engine-settings.ts";
import { runtimeSchema } from "./fields/runtime-fields.ts";
import { bytes, int32, nonEmpty, objectName, shortText, timestamp } from "./fields/shared.ts";
import { fileNames } from "./host-spec.ts";
import { replicaModelSchema } from "./inference-replica.ts";

export const BENCHMARK_WARMUPS = 2;
export const BENCHMARK_RUNS = 5;
export const BENCHMARK_TOKENS = 128;
export const BENCHMARK_RUNS_MAX = 20;

/** A Go-style duration of seconds, minutes or hours, such as 90s, 10m or 1h30m. */
const duration = (description: string) =>
  z
    .string()
    .max(32)
    .regex(/^([0-9]+h)?([0-9]+m)?([0-9]+s)?$/)
    .min(2)
    .describe(description);

/** Model.spec.benchmark. */
export const modelBenchmarkSchema = z.object({
  enabled: z
    .boolean()
    .describe(
      "If false, this model is not benchmarked. Defaults to true, unless the controller runs with --benchmarks=Off.",
    )
    .default(true),
  warmups: int32(0, BENCHMARK_RUNS_MAX)
    .describe("Number of runs before the measurement, which are not recorded. Defaults to 2.")
    .optional(),
  runs: int32(1, BENCHMARK_RUNS_MAX).describe("Number of measured runs. Defaults to 5.").optional(),
  tokens: int32(16, 1024).describe("Tokens that each run generates. Defaults to 128.").optional(),
  minDuration: duration(
    "Measuring ends after this time even if fewer runs are complete, but not before the first run, for example 30s. Defaults to no limit.",
  ).optional(),
});

/** A plan with all defaults filled in. */
const benchmarkPlanSchema = z.object({
  warmups: int32(0, BENCHMARK_RUNS_MAX).describe("Number of runs that are not recorded."),
  runs: int32(1, BENCHMARK_RUNS_MAX).describe("Maximum number of measured runs."),
  tokens: int32(16, 1024).describe("Tokens that each run generates."),
  minSeconds: int32(1, 86_400)
    .describe("Measuring ends after this time in seconds even if fewer runs are complete.")
    .optional(),
});

/** The engine settings that change the speed of a single request, as text. A default is absent. */
const benchmarkSettingsSchema = z
  .object({
    ...(Object.fromEntries(
      SPEED_SETTINGS.map((name) => [name, shortText(63, `Value of ${name}.`).optional()]),
    ) as Record<SpeedSetting, z.ZodOptional<z.ZodString>>),
    gpus: shortText(63, "Number of GPUs per pod.").optional(),
    gpuResource: shortText(253, "Resource of the GPUs of a pod, or their MIG profile.").optional(),
    accelerator: shortText(63, "vulkan, for pods with that accelerator.").optional(),
    image: shortText(512, "Image of the engine, for pods with spec.image.").optional(),
  })
  .describe("Engine settings that change the speed and differ from the defaults.");

const rateSchema = z.object({
  median: z.number().min(0).describe("Median in tokens per second."),
  spread: z
    .number()
    .min(0)
    .describe("Difference between the fastest and the slowest run, divided by the median."),
  samples: z
    .array(z.number().min(0))
    .max(BENCHMARK_RUNS_MAX)
    .describe("Tokens per second of each run, in order."),
});

export const BENCHMARK_TOOLS = ["llama-bench", "mlx_lm.benchmark", "requests"] as const;

/** Progress of a benchmark as its machine reports it: a host in its status, a Job in its termination message. */
export const measurementSchema = z.object({
  build: shortText(128, "Version or build of the engine, or the digest or tag of its image."),
  sizeBytes: bytes("Size of the model's files in bytes.").optional(),
  measuredAt: timestamp("Time at which the measurement finished."),
  tool: z
    .enum(BENCHMARK_TOOLS)
    .describe("Program that measured. requests: the requests of a client to the engine's own API."),
  generation: rateSchema.describe("Generation speed with an empty context."),
  generationAt4096: rateSchema.describe("Generation speed after a context of 4096 tokens.").optional(),
  prompt512: rateSchema.describe("Prompt processing speed of 512 tokens.").optional(),
  prompt4096: rateSchema.describe("Prompt processing speed of 4096 tokens.").optional(),
  timeToFirstTokenSeconds: z
    .number()
    .min(0)
    .describe(
      "Time to the first token of a prompt of 512 tokens, in seconds. Calculated from the speeds, unless tool is requests.",
    )
    .optional(),
  loadSeconds: z.number().min(0).describe("Time until the model was loaded, in seconds.").optional(),
  peakBytes: bytes("Maximum memory footprint of the engine, in bytes.").optional(),
  watts: z
    .number()
    .min(0)
    .describe("Mean power of the machine or of its GPUs while it generated, in watts.")
    .optional(),
  thermal: shortText(32, "Thermal state at the end, for example nominal.").optional(),
});

/** A measurement with its identity, which the controller knows. */
export const benchmarkResultSchema = measurementSchema.extend({
  model: nonEmpty(2048).describe("Source of the model, without credentials."),
  sha256: shortText(64, "SHA-256 of the main file, if it is known.").optional(),
  quantization: shortText(64, "Quantization of the model.").optional(),
  deviceClass: nonEmpty(63).describe("Class of the machine, for example apple-m4-max-40 or nvidia-l40s."),
  machine: nonEmpty(253).describe("Host or node that the model was measured on."),
  runtime: runtimeSchema.describe("Runtime that ran the model."),
  settings: benchmarkSettingsSchema,
});

/** The measurement that the controller requests from a host. */
export const benchmarkOrderSchema = z.object({
  key: nonEmpty(253).describe(
    "Key of the result, from the content of the model, runtime, settings and device class.",
  ),
  namespace: z.string().max(63).describe("Namespace of the Model."),
  name: objectName("Name of the Model."),
  model: replicaModelSchema
    .omit({ gguf: true })
    .extend({ ...fileNames, files: fileNames.files.unwrap().default([]) })
    .describe("Resolved description of the weights. The agent does not read the Model."),
  runtime: runtimeSchema.describe("Runtime to measure with."),
  build: shortText(128, "Build of the runtime that the host reported when it was chosen.").optional(),
  deviceClass: nonEmpty(63).describe("Class of the host."),
  // Server-side apply drops an empty object, so the API server fills it in.
  settings: benchmarkSettingsSchema.prefault({}),
  plan: benchmarkPlanSchema.describe("Number and length of the runs."),
});

/** State of the order that an agent carries out. */
export const benchmarkStateSchema = z.object({
  key: nonEmpty(253).describe("Key of the order."),
  build: shortText(128, "Build of the runtime that this state is about.").optional(),
  phase: z
    .enum(["Waiting", "Running", "Done", "Failed"])
    .describe(
      "Phase of the benchmark. Waiting: the host is not idle or cool, or the weights are being downloaded.",
    ),
  reason: z
    .string()
    .max(63)
    .regex(/^[A-Za-z0-9]*$/)
    .describe("Reason code; see docs/errors.md.")
    .optional(),
  message: shortText(
    512,
    "Human-readable description of the state, and of the remedy after a failure.",
  ).optional(),
  result: measurementSchema.describe("The measurement, once the phase is Done.").optional(),
});

export type ModelBenchmark = z.output<typeof modelBenchmarkSchema>;
export type BenchmarkPlan = z.output<typeof benchmarkPlanSchema>;
export type BenchmarkSettings = z.output<typeof benchmarkSettingsSchema>;
export type BenchmarkRate = z.output<typeof rateSchema>;
export type Measurement = z.output<typeof measurementSchema>;
export type BenchmarkResult = z.output<typeof benchmarkResultSchema>;
export type BenchmarkOrder = z.output<typeof benchmarkOrderSchema>;
export type BenchmarkState = z.output<typeof benchmarkStateSchema>;
