import { expect, test } from "vitest";
import { getCondition } from "../../src/api/conditions.ts";
import { type Host, hostSchema, type PrefetchState } from "../../src/api/host.ts";
import { type Model, modelSchema } from "../../src/api/model.ts";
import { assessPrefetch } from "./prefetch.ts";

const NOW = "2026-01-01T00:00:00Z";
const source = "https://models.example/m.gguf";

function model(spec: object): Model {
  return modelSchema.parse({
    metadata: { name: "chat", namespace: "team", generation: 1 },
    spec: { source, ...spec },
    status: { observedGeneration: 1, cacheKey: "k" },
  });
}

function host(name: string, state?: Omit<PrefetchState, "source" | "model">): Host {
  const models = state === undefined ? [] : [{ ...state, source, model: "team/chat" }];
  return hostSchema.parse({ metadata: { name }, status: { prefetch: { models } } });
}

/** Full of what another namespace prefetches. */
function fullHost(name: string): Host {
  const order = { source, format: "gguf", files: ["m.gguf"], refreshPolicy: "IfNotPresent" };
  const wanted = Array.from({ length: 256 }, (_, index) => ({
    namespace: "x",
    name: `m-${index}`,
    model: order,
  }));
  return hostSchema.parse({ metadata: { name }, status: { prefetch: { wanted } } });
}

const everywhere = { prefetchHosts: {} };

test.for<[string, object, readonly Host[], object | undefined, object | undefined]>([
  ["none is wanted", {}, [host("a")], undefined, undefined],
  [
    "no host is selected",
    { prefetchHosts: { names: ["x"] } },
    [host("a")],
    { wanted: 0, ready: 0, summary: "0/0" },
    { status: "False", reason: "NoHostSelected", message: expect.stringContaining("correct its names") },
  ],
  [
    "no host could run it",
    { prefetch: true },
    [host("a")],
    { wanted: 0, ready: 0, summary: "0/0" },
    { status: "False", reason: "NoHostSelected", message: expect.stringContaining("name the hosts") },
  ],
  [
    "one is on its way",
    everywhere,
    [host("a", { phase: "Ready" }), host("b", { phase: "Downloading" }), host("c")],
    { wanted: 3, ready: 1, summary: "1/3" },
    { status: "Unknown", reason: "Prefetching", message: "1 of 3 hosts have it" },
  ],
  [
    "one failed",
    everywhere,
    [host("b", { phase: "Failed", reason: "SourceNotFound", message: "it is not there" }), host("a")],
    { wanted: 2, ready: 0, summary: "0/2" },
    { status: "False", reason: "SourceNotFound", message: "0 of 2 hosts have it; host b: it is not there" },
  ],
  [
    "one host has no room for it",
    everywhere,
    [host("a", { phase: "Ready" }), fullHost("b")],
    { wanted: 2, ready: 1, summary: "1/2" },
    {
      status: "False",
      reason: "PrefetchListFull",
      message: expect.stringMatching(/^1 of 2 hosts have it; host b has no room.*256 KiB.*fewer files$/),
    },
  ],
  [
    "all have it",
    everywhere,
    [host("a", { phase: "Ready" })],
    { wanted: 1, ready: 1, summary: "1/1" },
    { status: "True", reason: "PrefetchComplete", message: "1 of 1 hosts have it" },
  ],
])("the status of a prefetch: %s", ([, spec, hosts, prefetch, condition]) => {
  const before = assessPrefetch(model(everywhere), [host("a")], [], NOW).conditions;
  const verdict = assessPrefetch(model(spec), hosts, before, NOW);
  expect(verdict.prefetch).toEqual(prefetch);
  const found = getCondition(verdict.conditions, "Prefetched");
  if (condition === undefined) expect(found).toBeUndefined();
  else expect(found).toMatchObject(condition);
});
