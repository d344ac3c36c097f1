import { expect, test } from "vitest";
import type { CatalogRecord } from "../../../../fitness/catalog/record.ts";
import type { CatalogFit } from "../../../../src/console/catalog.ts";
import {
  type Choice,
  type Deployment,
  deploymentOf,
  formFieldOf,
  meaningOf,
  placeOf,
  questionOf,
} from "./choice.ts";
import { foundModels } from "./form.tsx";

const record = (name: string, changes: Partial<CatalogRecord> = {}) =>
  ({
    name,
    parameter_count: "8B",
    use_case: "chat",
    quantization: "Q4_K_M",
    license: "apache-2.0",
    capabilities: [],
    gguf_sources: [{ repo: `${name}-GGUF`, provider: "x" }],
    mlx_sources: [],
    ...changes,
  }) as unknown as CatalogRecord;
const RECORDS = [record("Qwen/Qwen3-8B"), record("BAAI/bge-m3", { use_case: "embedding" })];

const choice = (changes: Partial<Choice>): Choice => ({
  from: "catalog",
  model: "",
  source: "",
  name: "",
  namespace: "team",
  quantization: "",
  contextSize: "",
  replicas: "1",
  cpuLimit: "",
  memoryLimit: "",
  objective: "",
  ...changes,
});
const deployed = (changes: Partial<Choice>) => {
  const meaning = meaningOf(choice(changes), RECORDS);
  if (meaning.at !== "deployment") throw new Error(JSON.stringify(meaning));
  return meaning.deployment;
};

test("an invalid edit of the YAML is not replaced by what the fields say", () => {
  const meaning = meaningOf(choice({ model: "Qwen/Qwen3-8B" }), RECORDS);
  expect(deploymentOf(meaning, { deployment: undefined })).toBeUndefined();
  expect(deploymentOf(meaning, undefined)).toBe(meaning.at === "deployment" && meaning.deployment);
});

test("a catalog model becomes the objects of metalbridge deploy", () => {
  const { model, service } = deployed({ model: "Qwen/Qwen3-8B", contextSize: "8192", replicas: "2" });
  expect(model).toMatchObject({
    kind: "Model",
    metadata: { name: "qwen3-8b", namespace: "team" },
    spec: { source: "hf://Qwen/Qwen3-8B-GGUF", quantization: "Q4_K_M" },
  });
  expect(service.spec).toEqual({ modelRef: "qwen3-8b", replicas: 2, contextSize: 8192 });
  const limited = deployed({ model: "Qwen/Qwen3-8B", memoryLimit: "24Gi", objective: "99.5" });
  expect(limited.service.spec).toMatchObject({
    resources: { limits: { memory: "24Gi" } },
    slo: { objective: "99.5" },
  });
});

test("an own source, a name and a quantization are taken as they are", () => {
  const { model, service } = deployed({
    from: "source",
    source: " https://example.org/tiny.gguf ",
    name: "my-model",
    quantization: "Q8_0",
    replicas: "",
  });
  expect(model.spec).toEqual({ source: "https://example.org/tiny.gguf", quantization: "Q8_0" });
  expect(service).toMatchObject({ metadata: { name: "my-model" }, spec: { modelRef: "my-model" } });
});

test("an embedding model is deployed as one", () => {
  expect(deployed({ model: "BAAI/bge-m3" }).service.spec.mode).toBe("embedding");
});

test.each([
  [{}, "incomplete", undefined],
  [{ from: "source", source: "models/a.gguf" }, "invalid", "source"],
  [{ from: "source", source: "ftp://a/b" }, "invalid", "source"],
  [{ model: "someone/unknown" }, "deployment", undefined],
  [{ model: "Qwen/Qwen3-8B", contextSize: "many" }, "invalid", "contextSize"],
  [{ model: "Qwen/Qwen3-8B", replicas: "0" }, "invalid", "replicas"],
] as const)("%j is %s at field %s", (changes, at, field) => {
  const meaning = meaningOf(choice(changes), RECORDS);
  expect([meaning.at, meaning.at === "invalid" ? meaning.field : undefined]).toEqual([at, field]);
});

test.each([
  ["metadata.name", "name"],
  ["metadata.namespace", "namespace"],
  ["spec.contextSize", "contextSize"],
  ["spec.source", "source"],
  ["spec.resources.limits.cpu", "cpuLimit"],
  ["spec.resources.limits.memory", "memoryLimit"],
  ["spec.slo.objective", "objective"],
  ["spec.parallelSlots", "yaml"],
  ["", "yaml"],
])("field %j of the objects is field %s of the form", (field, expected) => {
  expect(formFieldOf(field)).toBe(expected);
});

test("models that fit come first, then the newest; those without files are left out", () => {
  const models = [
    record("a/old", { release_date: "2024-01-01" }),
    record("b/new", { release_date: "2026-01-01" }),
    record("c/fits", { release_date: "2023-01-01" }),
    record("d/none", { gguf_sources: [] }),
  ];
  const fitOf = (level: CatalogFit["level"]): CatalogFit => ({ level, machine: "mac-1", tokensPerSecond: 1 });
  const fits = { "a/old": fitOf("marginal"), "b/new": fitOf("marginal"), "c/fits": fitOf("good") };
  const names = (words: string) => foundModels({ models, fits }, words).map(({ name }) => name);
  expect(names("")).toEqual(["c/fits", "b/new", "a/old"]);
  expect(names("APACHE new")).toEqual(["b/new"]);
  expect(names("nothing")).toEqual([]);
});

const onPods = { placement: { on: "Pods" } };
const weights = { model: "Qwen/Qwen3-8B", quantization: "Q4_K_M", context: undefined };

test.each<[model: object, service: object, place: string | undefined]>([
  [{}, {}, "runs on hosts, because the accelerator of Model qwen3-8b is metal"],
  [
    { hardware: { accelerator: "cpu" } },
    {},
    "runs in pods on Linux nodes, because the accelerator of Model qwen3-8b is cpu",
  ],
  [
    { hardware: { accelerator: "cpu" } },
    { placement: { on: "Auto" } },
    "runs on hosts and in pods on Linux nodes, because spec.placement.on is Auto",
  ],
  [{ flavors: [{ name: "gpu" }] }, {}, undefined],
  [{ flavors: "mac" }, {}, undefined],
])("with %o and %o the preview says that the service %s", (model, service, place) => {
  const made = deployed({ model: "Qwen/Qwen3-8B" });
  const edited = {
    model: { ...made.model, spec: { ...made.model.spec, ...model } },
    service: { ...made.service, spec: { ...made.service.spec, ...service } },
  } as Deployment;
  expect(placeOf(edited)).toBe(place);
});

test.each<[what: string, model: object, service: object, asked: object]>([
  ["the fields alone", {}, {}, { ...weights, on: "Hosts" }],
  [
    "an accelerator of pods",
    { hardware: { accelerator: "cuda" } },
    {},
    { ...weights, on: "Pods", accelerator: "cuda" },
  ],
  ["pods without a GPU", {}, onPods, { ...weights, on: "Pods", accelerator: "cpu" }],
  [
    "hosts",
    { hardware: { accelerator: "cuda" } },
    { placement: { on: "Hosts" } },
    { ...weights, on: "Hosts" },
  ],
  [
    "flavors of both",
    { flavors: [{ name: "mac", hostSelector: { matchLabels: {} } }, { name: "gpu" }] },
    {},
    { ...weights, on: "Auto" },
  ],
  [
    "hosts by name and label",
    {},
    { placement: { hosts: ["mac-1"], hostSelector: { matchLabels: { room: "lab" } } } },
    {
      ...{ ...weights, on: "Hosts", hosts: ["mac-1"] },
      hostSelectors: [{ matchLabels: { room: "lab" }, matchExpressions: [] }],
    },
  ],
  [
    "nodes by labels of the service and of a flavor",
    { flavors: [{ name: "gpu", nodeSelector: { gpu: "a100" } }] },
    { nodeSelector: { zone: "a" } },
    {
      ...{ ...weights, on: "Pods", hostSelectors: [] },
      nodeSelectors: [
        { matchLabels: { zone: "a" }, matchExpressions: [{ key: "gpu", operator: "In", values: ["a100"] }] },
      ],
    },
  ],
  [
    "labels that the API server will refuse",
    {},
    { nodeSelector: { zone: 1 }, affinity: "near", placement: { hostSelector: [] } },
    { ...weights, on: "Hosts" },
  ],
  ["flavors that the API server will refuse", { flavors: "mac" }, {}, { ...weights, on: "Auto" }],
  ["a smaller context", {}, { contextSize: 512 }, { ...weights, context: 512, on: "Hosts" }],
  ["slots", {}, { contextSize: 512, parallelSlots: 4 }, { ...weights, context: 512, slots: 4, on: "Hosts" }],
  [
    "other weights",
    { source: "hf://a/b", quantization: undefined },
    {},
    { model: "hf://a/b", on: "Hosts", quantization: undefined },
  ],
  [
    "other weights with a quantization",
    { source: "hf://a/b", quantization: "Q8_0" },
    {},
    { model: "hf://a/b", on: "Hosts", quantization: "Q8_0" },
  ],
])("the preview asks about the objects that will be created: %s", (_, model, service, asked) => {
  const fields = choice({ model: "Qwen/Qwen3-8B" });
  const meaning = meaningOf(fields, RECORDS);
  const made = deployed(fields);
  const edited = {
    model: { ...made.model, spec: { ...made.model.spec, ...model } },
    service: { ...made.service, spec: { ...made.service.spec, ...service } },
  } as Deployment;
  expect(questionOf(fields, meaning, edited)).toEqual(asked);
  expect(questionOf(fields, meaning, undefined)).toBeUndefined();
});

test.each<[from: "catalog" | "source", name: string, typed: string, quantization: string | undefined]>([
  ["source", "hf://a/b/b-Q8_0.gguf", "", "Q8_0"],
  ["source", "hf://a/b", "Q6_K", "Q6_K"],
  ["source", "hf://a/b", "IQ3_M", undefined],
  ["catalog", "mlx-org/m", "", "mlx-4bit"],
  ["catalog", "Qwen/Qwen3-8B", "", "Q4_K_M"],
  // The API says which ones it knows.
  ["catalog", "Qwen/Qwen3-8B", "Q9", "Q9"],
])("the preview for %s %s %s asks for the quantization of the objects: %s", (from, name, typed, expected) => {
  const mlx = { gguf_sources: [], mlx_sources: ["mlx-org/m-4bit"] };
  const fields = choice({ from, model: name, source: name, quantization: typed });
  const meaning = meaningOf(fields, [...RECORDS, record("mlx-org/m", mlx)]);
  const question = questionOf(fields, meaning, deploymentOf(meaning, undefined));
  expect(question?.quantization).toBe(expected);
});
