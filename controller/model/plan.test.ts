import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import type { Host } from "../../src/api/host.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import type { Model } from "../../src/api/model.ts";
import { cacheWish } from "../../src/linux/cache-wish.ts";
import type { CacheState } from "./cache/plan.ts";
import { classifyModel } from "./classify.ts";
import { modelConfigSchema } from "./config.ts";
import { type InspectionResult, isInspectionDue, isKnown, recordInspection } from "./inspections.ts";
import { planModelStatus } from "./plan.ts";

const FOLDER = new URL("golden/", import.meta.url);
const NOW = "2026-01-02T03:04:05Z";

interface Case {
  readonly model: Model;
  readonly hosts?: readonly Host[];
  readonly inspection?: InspectionResult;
  readonly cache?: CacheState;
}

const settings = modelConfigSchema.parse({ image: "registry.example.com/metalbridge:1" });
const taskOf = (of: Model) => classifyModel(of, cacheWish(of, [], settings));

const cases = readdirSync(FOLDER).filter((name) => name.endsWith(".input.yaml"));

test.each(cases)("golden: %s", (name) => {
  const { model, hosts = [], inspection, cache }: Case = parse(readFileSync(new URL(name, FOLDER), "utf8"));
  const status = planModelStatus(
    { model, hosts, task: taskOf(model), inspection, isKnown: isKnown(model), cache },
    NOW,
  );
  const expected = new URL(name.replace(".input.", ".plan."), FOLDER);
  if (process.env.UPDATE_GOLDEN === "1") writeFileSync(expected, stringify(status, { lineWidth: 0 }));
  expect(status).toEqual(parse(readFileSync(expected, "utf8")));
});

test("planning a second time with the first status changes nothing", () => {
  for (const name of cases) {
    const { model, hosts = [], inspection, cache }: Case = parse(readFileSync(new URL(name, FOLDER), "utf8"));
    const observe = (seen: Model) => ({
      model: seen,
      hosts,
      task: taskOf(seen),
      ...{ inspection, cache },
      isKnown: isKnown(seen),
    });
    const first = planModelStatus(observe(model), NOW);
    expect(planModelStatus(observe({ ...model, status: first }), "2027-01-01T00:00:00Z")).toEqual(first);
  }
});

function model(more: Partial<Model["spec"]> = {}): Model {
  return {
    metadata: { name: "m", namespace: "n", uid: "u", generation: 1 },
    spec: {
      source: "hf://org/repo",
      refreshPolicy: "IfNotPresent",
      prefetch: false,
      hardware: { accelerator: "metal" },
      ...more,
    } as Model["spec"],
  };
}

const failure = (isTransient: boolean, retryAfterMs?: number): InspectionResult => ({
  at: "failed",
  code: "SourceUnreachable",
  message: "no",
  isTransient,
  retryAfterMs,
});
const found: Extract<InspectionResult, { at: "found" }> = {
  at: "found",
  found: {
    format: "gguf",
    files: ["m.gguf"],
    sizeBytes: 1,
    revision: "r",
    sha256: undefined,
    gguf: undefined,
    isChosen: false,
  },
};

test("transient failures are retried after 5 s, doubling to 10 min; Retry-After wins", () => {
  let last = recordInspection(model(), undefined, failure(true), 0, 0);
  expect(last.nextAtMs).toBe(5_000);
  last = recordInspection(model(), last, failure(true), 0, 0);
  expect(last.nextAtMs).toBe(10_000);
  for (let round = 0; round < 50; round++) last = recordInspection(model(), last, failure(true), 0, 0);
  expect(last.nextAtMs).toBe(600_000);
  expect(recordInspection(model(), last, failure(true, 7_000), 0, 0).nextAtMs).toBe(7_000);
  expect(recordInspection(model(), last, failure(false), 0, 0)).toMatchObject({ nextAtMs: 600_000 });
  expect(recordInspection(model(), last, found, 0, 0)).toMatchObject({ failures: 0, nextAtMs: undefined });
});

test("a source is inspected once per spec, and again only when it is due", () => {
  expect(isInspectionDue(model(), undefined, 0)).toBe(true);
  const last = recordInspection(model(), undefined, failure(true), 0, 0);
  expect(isInspectionDue(model(), last, 4_999)).toBe(false);
  expect(isInspectionDue(model(), last, 5_000)).toBe(true);
  const edited = { ...model(), metadata: { ...model().metadata, generation: 2 } };
  expect(isInspectionDue(edited, last, 0)).toBe(true);
  const done = recordInspection(model(), undefined, found, 0, 0);
  expect(isInspectionDue(model(), done, 1e12)).toBe(false);
  expect(
    isInspectionDue(
      model({ refreshPolicy: "OnChange" }),
      recordInspection(model({ refreshPolicy: "OnChange" }), undefined, found, 0, 0),
      600_000,
    ),
  ).toBe(true);
});

test("a new leader inspects only what is not known", () => {
  const status = { phase: "Ready" as const, observedGeneration: 1, files: ["m.gguf"] };
  expect(isInspectionDue({ ...model(), status }, undefined, 0)).toBe(false);
  expect(isInspectionDue({ ...model(), status: { ...status, observedGeneration: 0 } }, undefined, 0)).toBe(
    true,
  );
  expect(isInspectionDue({ ...model({ refreshPolicy: "OnChange" }), status }, undefined, 0)).toBe(true);
});

const commit = "c".repeat(40);
const chosen = (revision = commit): InspectionResult => ({
  at: "found",
  found: { ...found.found, files: ["m-Q4.gguf"], revision, isChosen: true },
});

function statusOf(observed: Model, inspection: InspectionResult | undefined) {
  const task = classifyModel(observed);
  return planModelStatus({ model: observed, hosts: [], task, inspection, isKnown: isKnown(observed) }, NOW);
}

test("a new Model pins its commit, and the file that its quantization chose", () => {
  expect(statusOf(model({ quantization: "Q4" }), chosen()).pinned).toMatchObject({
    file: "m-Q4.gguf",
    revision: commit,
  });
  const only: InspectionResult = { at: "found", found: { ...found.found, revision: commit } };
  expect(statusOf(model(), only).pinned).toEqual({ key: expect.any(String), revision: commit });
  expect(statusOf(model(), found).pinned).toBeUndefined();
});

test("a pin outlives outages and newer commits, and is removed when the spec chooses other files", () => {
  const wanted = model({ quantization: "Q4" });
  const status = statusOf(wanted, chosen());
  const { pinned } = status;
  for (const inspection of [failure(true), failure(false), undefined, chosen("d".repeat(40))])
    expect(statusOf({ ...wanted, status }, inspection).pinned).toEqual(pinned);
  const resized = { ...model({ quantization: "Q4", prefetch: true }), status };
  expect(statusOf(resized, undefined).pinned).toEqual(pinned);
  expect(statusOf({ ...model({ quantization: "Q8" }), status }, failure(true)).pinned).toBeUndefined();
});

test("OnChange pins no commit", () => {
  const wanted = model({ refreshPolicy: "OnChange", quantization: "Q4" });
  expect(statusOf(wanted, chosen()).pinned).toEqual({ key: expect.any(String), file: "m-Q4.gguf" });
});

test("a Model that an earlier version resolved stays unpinned, unless hosts could not resolve it", () => {
  const status = { phase: "Ready" as const, observedGeneration: 1, files: ["m.gguf"], revision: commit };
  const only: InspectionResult = { at: "found", found: { ...found.found, revision: commit } };
  expect(statusOf({ ...model({ quantization: "Q4" }), status }, only).pinned).toBeUndefined();
  expect(isInspectionDue({ ...model({ quantization: "Q4" }), status }, undefined, 0)).toBe(true);
  expect(statusOf({ ...model({ quantization: "Q4" }), status }, chosen()).pinned).toBeDefined();
  expect(isInspectionDue({ ...model(), status }, undefined, 0)).toBe(false);
});

test("a Model for pods that fetch the weights themselves is Ready in a format that no host runs", () => {
  const forPods = model({ hardware: { accelerator: "cuda" } });
  const ephemeral = { spec: { placement: {}, modelCache: { persistence: "Ephemeral" } } };
  const task = classifyModel(forPods, cacheWish(forPods, [ephemeral as InferenceService], settings));
  const found = { files: ["a.safetensors"], format: "safetensors" as const, isChosen: false };
  const inspection: InspectionResult = {
    at: "found",
    found: { ...found, sizeBytes: 5, revision: undefined, sha256: undefined, gguf: undefined },
  };
  const status = planModelStatus({ model: forPods, hosts: [], task, inspection, isKnown: false }, NOW);
  expect(status).toMatchObject({ phase: "Ready", message: expect.stringContaining("each pod") });
});
