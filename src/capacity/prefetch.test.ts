import { expect, test } from "vitest";
import { type Host, hostSchema } from "../api/host.ts";
import { type Model, modelSchema } from "../api/model.ts";
import { isPrefetched, isPrefetchHost, prefetchOrders, prefetchText } from "./prefetch.ts";

const GIB = 2 ** 30;

function model(spec: object, status: object = {}): Model {
  const found = { phase: "Ready", observedGeneration: 1, cacheKey: "k", weightsBytes: 8 * GIB };
  return modelSchema.parse({
    metadata: { name: "chat", namespace: "team", generation: 1 },
    spec: { source: "hf://org/repo/m.gguf", ...spec },
    status: { ...found, ...status },
  });
}

function host(name: string, { gib = 16, runtimes = ["llamacpp"], labels = {} } = {}): Host {
  return hostSchema.parse({
    metadata: { name, labels },
    status: { memory: { gpuBudgetBytes: gib * GIB }, runtimes: runtimes.map((one) => ({ name: one })) },
  });
}

const hosts = [
  host("large", { labels: { pool: "chat" } }),
  host("small", { gib: 4, labels: { pool: "chat" } }),
  host("other", { runtimes: ["ollama"] }),
  host("bare", { runtimes: [] }),
];

const chosen = (spec: object) =>
  hosts.filter((one) => isPrefetchHost(model(spec), one)).map(({ metadata }) => metadata.name);

test.for<[string, object, readonly string[]]>([
  ["nothing is asked for", {}, []],
  ["every host with a runtime and the memory", { prefetch: true }, ["large", "other"]],
  [
    "hosts by name, whatever they can run",
    { prefetchHosts: { names: ["small", "bare"] } },
    ["small", "bare"],
  ],
  ["hosts by label", { prefetchHosts: { selector: { matchLabels: { pool: "chat" } } } }, ["large", "small"]],
  [
    "names and labels both decide",
    { prefetchHosts: { names: ["large", "bare"], selector: { matchLabels: { pool: "chat" } } } },
    ["large"],
  ],
  ["a file of the host is there already", { prefetch: true, source: "/models/m.gguf" }, []],
  ["Ollama pulls on its own", { prefetch: true, source: "ollama://tiny:latest" }, []],
  ["only pods use it", { prefetch: true, hardware: { accelerator: "cuda" } }, []],
  ["an invalid source is for no host", { prefetch: true, source: "hf://org" }, []],
])("prefetch: %s", ([, spec, names]) => {
  expect(chosen(spec)).toEqual(names);
  expect(isPrefetched(model(spec))).toBe(names.length > 0);
});

test("an order holds what a replica would fetch, and comes once the source is resolved", () => {
  const spec = { prefetch: true, sourceSecretRef: { name: "token" }, sha256: "A".repeat(64) };
  const [large] = hosts as [Host];
  const pinned = { key: "x", file: "m.gguf", revision: "c".repeat(40) };
  expect(prefetchOrders(large, [model(spec, { pinned })])).toEqual([
    {
      namespace: "team",
      name: "chat",
      model: {
        source: "hf://org/repo/m.gguf",
        files: ["m.gguf"],
        revision: "c".repeat(40),
        sha256: "a".repeat(64),
        format: "gguf",
        secretRef: { name: "token" },
        refreshPolicy: "IfNotPresent",
      },
    },
  ]);
  expect(prefetchOrders(large, [model(spec, { observedGeneration: 0 })])).toEqual([]);
  expect(prefetchOrders(large, [model(spec, { cacheKey: undefined })])).toEqual([]);
});

test("only what decides who fetches what counts as a change", () => {
  const before = prefetchText(model({ prefetch: true }));
  expect(prefetchText(model({ prefetch: true }, { message: "another" }))).toBe(before);
  expect(prefetchText(model({ prefetch: true }, { pinned: { key: "x", file: "n.gguf" } }))).not.toBe(before);
  expect(prefetchText(model({ prefetchHosts: { names: ["large"] } }))).not.toBe(before);
  expect(prefetchText(model({}))).toBe("");
});
