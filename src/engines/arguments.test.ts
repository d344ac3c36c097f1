import { expect, test } from "vitest";
import { z } from "zod";
import { type EngineSettings, engineFields } from "../api/engine-settings.ts";
import { MetalbridgeError } from "../api/errors.ts";
import type { Runtime } from "../api/fields/runtimes.ts";
import { inferenceServiceSpecSchema } from "../api/inference-service/index.ts";
import { modelSchema } from "../api/model.ts";
import { readArguments } from "./contract/arguments.ts";
import type { EngineDescription } from "./contract/description.ts";
import type { PodInput } from "./contract/pod.ts";
import { omlxSettings } from "./omlx/settings.ts";
import { ENGINES } from "./registry.ts";

/** Why a setting, or an argument that a setting renders, is not in the table of the engine. */
const NO_SETTING: Partial<Record<Runtime | "all", Readonly<Record<string, string>>>> = {
  all: {
    mode: "the mode is the API of the service, not an option of its engine",
    chatTemplate: "its argument is the path of a file that only the agent or the pod writes",
    slotSaveRestore: "its argument is the path of a folder that only the agent or the pod has",
    extraArgs: "they are the arguments",
    tensorParallelSize: "extraArgs may have one of two numbers that are checked together",
    pipelineParallelSize: "extraArgs may have one of two numbers that are checked together",
  },
  vllm: {
    "--max-model-len": "contextSize is for all slots, and the argument for each request",
    "--speculative-config": "it has more methods than vllmConfig.speculative",
  },
  sglang: {
    "--context-length": "contextSize is for all slots, and the argument for each request",
    "--max-running-requests": "it is sglangConfig.maxRunningRequests",
  },
  tgi: { "--max-total-tokens": "contextSize is for all slots, and the argument for each request" },
  "tensorrt-llm": { "--max-seq-len": "contextSize is for all slots, and the argument for each request" },
  llamacpp: {
    "--ctx-size": "the default context grows with parallelSlots",
    "--spec-ngram-simple-size-m": "the type decides which argument limits a draft",
    "--spec-ngram-map-k-size-m": "the type decides which argument limits a draft",
    "--spec-ngram-map-k4v-size-m": "the type decides which argument limits a draft",
    "--spec-ngram-mod-n-max": "the type decides which argument limits a draft",
  },
};

const SECTIONS = ["vllmConfig", "sglangConfig", "tgiConfig", "personaPlexConfig"];

/** Values of a setting by its schema: all of a choice, and one of everything else. */
function* samplesOf(schema: z.core.JSONSchema._JSONSchema): Iterable<unknown> {
  if (typeof schema === "boolean") return;
  const { type, enum: choices, minimum = 0, maximum = 1_000, properties = {}, required = [] } = schema;
  if (choices !== undefined) yield* choices;
  else if (type === "boolean") yield* [true, false];
  else if (type === "integer") yield Math.min(maximum, Math.max(minimum, 1) + 63);
  else if (type === "number") yield (Math.max(minimum, 0) + Math.min(maximum, 1)) / 2;
  else if (type === "string") yield* schema.pattern?.startsWith("^[0-9]") === true ? ["2"] : ["x", "8GB"];
  else if (type === "array") yield ["a=int:1"];
  else if (type === "object")
    for (const [name, part] of Object.entries(properties))
      for (const value of samplesOf(part)) yield* withRequired(properties, required, { [name]: value });
}

/** The object with each value of the required properties that it does not have. */
function* withRequired(
  properties: Readonly<Record<string, z.core.JSONSchema._JSONSchema>>,
  required: readonly string[],
  object: Readonly<Record<string, unknown>>,
): Iterable<unknown> {
  const [missing] = required.filter((one) => !Object.hasOwn(object, one));
  if (missing === undefined) yield object;
  else
    for (const value of samplesOf(properties[missing] ?? {}))
      yield* withRequired(properties, required, { [missing]: value, ...object });
}

function samples(schema: z.ZodType): unknown[] {
  return [...samplesOf(z.toJSONSchema(schema, { io: "input", unrepresentable: "any" }))];
}

const FIELDS = Object.entries(inferenceServiceSpecSchema.shape).filter(
  ([name]) =>
    name === "mode" || name === "speculativeDecoding" || name in engineFields || SECTIONS.includes(name),
);

const model = modelSchema.parse({
  metadata: { name: "m", namespace: "default" },
  spec: { source: "hf://org/m", format: "safetensors" },
});

function argumentsIn({ runtime, pod }: EngineDescription, fields: object): readonly string[] {
  const parsed = inferenceServiceSpecSchema.safeParse({ modelRef: "m", ...fields });
  if (!parsed.success) return [];
  const spec = parsed.data;
  const known = Object.keys(fields).filter((name) => name in engineFields || name === "speculativeDecoding");
  const own = Object.fromEntries(known.map((name) => [name, fields[name as keyof typeof fields]]));
  const settings = { mode: spec.mode ?? "chat", ...own } as EngineSettings;
  const input = {
    spec,
    settings,
    model,
    served: "chat",
    aliases: [],
    adapters: [],
    weights: { folder: "/weights", main: "/weights/m" },
    chatTemplateFile: spec.chatTemplate === undefined ? undefined : "/template",
    address: "::",
    port: 8080,
    accelerator: "cuda",
    gpus: { count: 0 },
    hasPinnedImage: true,
  } as unknown as PodInput;
  try {
    return runtime === "omlx" ? omlxSettings(settings).flags : (pod?.command(input).args ?? []);
  } catch (error) {
    // A setting that the engine does not take renders nothing.
    if (error instanceof MetalbridgeError) return [];
    throw error;
  }
}

/** Arguments of the second list that the first does not have, without the value. */
function changed(before: readonly string[], after: readonly string[], known: EngineDescription["arguments"]) {
  const isFlag = (text: string) => /^--?[A-Za-z]/.test(text);
  const rowsOf = (all: readonly string[]) =>
    all.flatMap((text, index) => {
      const [next] = all.slice(index + 1);
      return isFlag(text) ? [[text, next === undefined || isFlag(next) ? "" : next] as const] : [];
    });
  const old = new Map(rowsOf(before));
  return rowsOf(after)
    .filter(([flag, value]) => old.get(flag) !== value)
    .map(([flag]) => {
      const [read] = readArguments([flag], { settings: known?.settings ?? {} });
      return { flag: flag.startsWith("--") ? flag.replaceAll("_", "-") : flag, covered: read?.covered };
    });
}

const taking = ENGINES.filter(
  ({ host, pod, runtime }) =>
    [...(host?.settings ?? []), ...(pod?.settings ?? [])].includes("extraArgs") && runtime !== "generic",
);

test("the engines that take arguments are tried", () => {
  const runtimes = ["llamacpp", "omlx", "vllm", "sglang", "tgi", "tensorrt-llm", "personaplex"];
  expect(taking.map(({ runtime }) => runtime)).toEqual(runtimes);
});

/** Each setting with its values, by its path. */
function* valuesOfSettings() {
  for (const [field, schema] of FIELDS) {
    for (const value of samples(schema as z.ZodType)) {
      const part = SECTIONS.includes(field) ? Object.keys(value as object).at(-1) : undefined;
      const path = part === undefined ? field : `${field}.${part}`;
      yield { path, name: part ?? field, fields: { [field]: value } };
    }
  }
}

/** What each setting renders that is not rendered without it. */
function renderedBy(engine: EngineDescription, without: Readonly<Record<string, string>>) {
  const before = argumentsIn(engine, {});
  return [...valuesOfSettings()]
    .filter(({ name }) => !(name in without))
    .flatMap(({ path, fields }) =>
      changed(before, argumentsIn(engine, fields), engine.arguments).map((one) => ({ path, ...one })),
    );
}

test.each(taking)(
  "every argument that a setting renders with $runtime is mapped to that setting",
  (engine) => {
    const { [engine.runtime]: exceptions = {}, all = {} } = NO_SETTING;
    const rendered = renderedBy(engine, all);
    const others = rendered.filter(
      ({ path, covered }) =>
        ![covered?.setting, covered?.custom].some((one) => one === path || one?.startsWith(`${path}.`)),
    );
    const missing = others.filter(({ flag }) => !(flag in exceptions));
    expect(missing.map(({ flag, path }) => `${flag} of ${path}`)).toEqual([]);
    expect(new Set(others.map(({ flag }) => flag))).toEqual(new Set(Object.keys(exceptions)));
    expect(rendered.length).toBeGreaterThan(1);
  },
);
