import fc from "fast-check";
import { expect, test } from "vitest";
import { type Host, hostSchema, PREFETCH_BYTES_MAX, PREFETCH_MAX, type PrefetchOrder } from "../api/host.ts";
import { type Model, modelSchema } from "../api/model.ts";
import { isPrefetched, isPrefetchHost, modelsWithoutRoom, prefetchOrders, prefetchText } from "./prefetch.ts";

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
  const ignorePatterns = ["*.pth"];
  const spec = {
    prefetch: true,
    sourceSecretRef: { name: "token" },
    sha256: "A".repeat(64),
    ignorePatterns,
  };
  const [large] = hosts as [Host];
  const pinned = { key: "x", file: "m.gguf", revision: "c".repeat(40) };
  expect(prefetchOrders(large, [model(spec, { pinned })])).toEqual([
    {
      namespace: "team",
      name: "chat",
      model: {
        source: "hf://org/repo/m.gguf",
        files: ["m.gguf"],
        ignorePatterns,
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

/** As Go writes it. */
const storedBytes = (orders: readonly PrefetchOrder[]) =>
  Buffer.byteLength(JSON.stringify(orders).replace(/[<>&]/g, "\\u0000"));
const modelOf = (namespace: string, name: string, files: readonly string[]): Model => {
  const of = model({ prefetch: true, files });
  return { ...of, metadata: { ...of.metadata, namespace, name } };
};
const [large] = hosts as [Host];
const namesOf = (orders: readonly PrefetchOrder[]) =>
  orders.map(({ namespace, name }) => `${namespace}/${name}`);

test("whatever is asked of a host, its list has 256 orders and 256 KiB at most, and is what has no room beside it", () => {
  const file = fc
    .constantFrom("f", "<", "&", "é", "\u{1f600}")
    .chain((one) => fc.integer({ min: 1, max: 256 }).map((length) => one.repeat(length)));
  const wish = fc.record({
    namespace: fc.constantFrom("a", "b", "c"),
    files: fc.tuple(file, fc.integer({ min: 1, max: 256 })),
  });
  fc.assert(
    fc.property(fc.array(wish, { maxLength: 30 }), fc.nat(400), (wishes, small) => {
      const models = [
        ...wishes.map(({ namespace, files: [one, count] }, index) =>
          modelOf(
            namespace,
            `m-${index}`,
            Array.from({ length: count }, () => one),
          ),
        ),
        ...Array.from({ length: small }, (_, index) => modelOf("many", `m-${index}`, ["m.gguf"])),
      ];
      const wanted = prefetchOrders(large, models);
      expect(wanted.length).toBeLessThanOrEqual(PREFETCH_MAX);
      expect(storedBytes(wanted)).toBeLessThanOrEqual(PREFETCH_BYTES_MAX + PREFETCH_MAX);
      const written = { ...large, status: { ...large.status, prefetch: { wanted } } };
      const all = [
        ...namesOf(wanted),
        ...modelsWithoutRoom(written, models).map((one) => `${one.metadata.namespace}/${one.metadata.name}`),
      ];
      expect(all.sort()).toEqual(
        models.map(({ metadata: { namespace, name } }) => `${namespace}/${name}`).sort(),
      );
    }),
    { numRuns: 40 },
  );
});

test("a namespace with many or large Models does not keep those of another from a host", () => {
  const longNames = Array.from({ length: 256 }, (_, index) => `${index}-${"x".repeat(500)}`);
  fc.assert(
    fc.property(
      fc.integer({ min: 12, max: 500 }),
      fc.boolean(),
      fc.integer({ min: 1, max: 20 }),
      (count, isLarge, others) => {
        const files = isLarge ? longNames.slice(0, 64) : ["m.gguf"];
        const models = [
          ...Array.from({ length: count }, (_, index) => modelOf("a", `m-${index}`, files)),
          ...Array.from({ length: others }, (_, index) => modelOf(`z-${index}`, "chat", ["m.gguf"])),
        ];
        const names = namesOf(prefetchOrders(large, models));
        for (let index = 0; index < others; index += 1) expect(names).toContain(`z-${index}/chat`);
        expect(names.some((name) => name.startsWith("a/"))).toBe(true);
      },
    ),
    { numRuns: 40 },
  );
});
