import { expect, test } from "vitest";
import { problemsOf } from "../../test/metrics/conventions.ts";
import { parseExposition } from "../../test/metrics/exposition.ts";
import type { MetricsFacts, MetricsSource } from "./families/scrape.ts";
import { agentMetrics } from "./families.ts";
import { someEngine, someFacts, someReplica, someRoute } from "./fixtures/facts.ts";
import { createMetrics } from "./metrics.ts";

async function scrape(change: Partial<MetricsFacts> = {}, engines = [someEngine()]) {
  const readGate = async () => [someRoute()];
  const source: MetricsSource = {
    facts: () => someFacts(change),
    readEngines: async () => engines,
    readGate,
  };
  return parseExposition(await createMetrics(source)());
}

test("every family is shown, right in form, with the labels it declares", async () => {
  const shown = await scrape();
  expect([...shown.keys()]).toEqual(agentMetrics.map(({ name }) => name));
  for (const { name, labels = [], type } of agentMetrics) {
    const family = shown.get(name);
    expect(family, name).toMatchObject({ type });
    expect(family?.samples.length, name).toBeGreaterThan(0);
    for (const sample of family?.samples ?? []) {
      const { le: _, ...own } = sample.labels;
      expect(Object.keys(own).sort(), name).toEqual([...labels].sort());
    }
  }
});

test("names, units and help texts keep to the conventions", () => {
  expect(agentMetrics.flatMap(problemsOf)).toEqual([]);
});

test("replicas of one model share a series of speed, also under FlexInfer's name if that is enabled", async () => {
  const replicas = [
    someReplica(),
    someReplica({ uid: "uid-1", name: "chat-1" }),
    someReplica({ uid: "uid-2", name: "idle", performance: undefined }),
  ];
  const source = {
    facts: () => someFacts({ replicas }),
    readEngines: async () => [],
    readGate: async () => [],
  };
  const plain = parseExposition(await createMetrics(source)());
  expect(plain.has("flexinfer_tokens_per_second")).toBe(false);
  const shown = parseExposition(await createMetrics({ ...source, flexinferMetricNames: true })());
  const labels = { model: "hf://org/repo/model.gguf", backend: "llamacpp", node: "mac-1" };
  for (const prefix of ["metalbridge", "flexinfer"]) {
    expect(shown.get(`${prefix}_tokens_per_second`)?.samples).toEqual([
      expect.objectContaining({ labels, value: 41 }),
    ]);
    expect(shown.get(`${prefix}_model_load_seconds`)?.type).toBe("histogram");
  }
});

test("one series per replica and phase, of which one is 1", async () => {
  const phases = (await scrape()).get("metalbridge_replica_phase")?.samples ?? [];
  expect(phases).toHaveLength(11);
  expect(phases.filter(({ value }) => value === 1).map(({ labels }) => labels.phase)).toEqual(["Ready"]);
});

test("what could not be read is absent, not zero", async () => {
  const shown = await scrape(
    { budgetBytes: undefined, memory: { pressure: "Unknown" }, disk: undefined, watchAgeMs: undefined },
    [someEngine({ gauges: "unknown" })],
  );
  const count = (name: string) => shown.get(name)?.samples.length;
  for (const name of [
    "metalbridge_host_memory_budget_bytes",
    "metalbridge_host_memory_available_bytes",
    "metalbridge_host_disk_free_bytes",
    "metalbridge_agent_watch_age_seconds",
    "metalbridge_engine_requests_running",
    "metalbridge_engine_generated_tokens_total",
  ]) {
    expect(count(name), name).toBe(0);
  }
  expect(shown.get("metalbridge_engine_up")?.samples).toMatchObject([{ value: 0 }]);
});

test("an engine that does not tell one thing shows the others", async () => {
  const shown = await scrape({}, [{ uid: "uid-0", gauges: { running: 1, waiting: 0 } }]);
  expect(shown.get("metalbridge_engine_requests_running")?.samples).toMatchObject([{ value: 1 }]);
  expect(shown.get("metalbridge_engine_requests_waiting")?.samples).toMatchObject([{ value: 0 }]);
  expect(shown.get("metalbridge_engine_kv_cache_usage_ratio")?.samples).toEqual([]);
});

test("a replica that is gone leaves no series, whatever it once showed", async () => {
  let replicas = [someReplica(), someReplica({ uid: "uid-1", name: "chat-1-def" })];
  const facts = () => someFacts({ replicas });
  const metrics = createMetrics({
    facts,
    readEngines: async () => [someEngine()],
    readGate: async () => [someRoute()],
  });
  expect(await metrics()).toContain('replica="chat-0-abc"');
  replicas = replicas.slice(1);
  const after = await metrics();
  expect(after).not.toContain("chat-0-abc");
  expect(after).toContain('replica="chat-1-def"');
});

test("a new object of the name of one that is still ending does not make series twice", async () => {
  const shown = await scrape({
    replicas: [
      someReplica(),
      someReplica({ uid: "uid-1", phase: "Draining" }),
      someReplica({ uid: "uid-2", name: "" }),
    ],
  });
  expect(shown.get("metalbridge_replica_restarts_total")?.samples).toHaveLength(1);
});

test("label values may hold anything", async () => {
  const revision = 'a"b\\c\nd';
  const shown = await scrape({ replicas: [someReplica({ revision })] });
  expect(shown.get("metalbridge_replica_info")?.samples[0]?.labels.revision).toBe(revision);
});

test("scrapes that overlap share one look at the engines; the next one looks again", async () => {
  let looks = 0;
  const readEngines = async () => {
    looks += 1;
    return [];
  };
  const metrics = createMetrics({ facts: someFacts, readEngines, readGate: async () => [] });
  const [one, two] = await Promise.all([metrics(), metrics()]);
  expect(one).toBe(two);
  expect(looks).toBe(1);
  await metrics();
  expect(looks).toBe(2);
});

test("a download reports its bytes, its size and the time that is left; unknown is absent", async () => {
  const valuesOf = async (download: ReturnType<typeof someReplica>["download"]) => {
    const shown = await scrape({ replicas: [someReplica(download === undefined ? {} : { download })] });
    return ["received_bytes", "size_bytes", "remaining_seconds"].map(
      (name) => shown.get(`metalbridge_replica_download_${name}`)?.samples[0]?.value,
    );
  };
  expect(await valuesOf({ bytes: 1_000, totalBytes: 5_000, bytesPerSecond: 200 })).toEqual([
    1_000, 5_000, 20,
  ]);
  expect(await valuesOf({ bytes: 1_000, totalBytes: 5_000, bytesPerSecond: 0 })).toEqual([
    1_000,
    5_000,
    undefined,
  ]);
  expect(await valuesOf({ bytes: 1_000 })).toEqual([1_000, undefined, undefined]);
});
