import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { parse, stringify } from "yaml";
import type { Host } from "../../src/api/host.ts";
import type { Model } from "../../src/api/model.ts";
import { classifyModel } from "./classify.ts";
import { isKnown, isLookDue, type LookResult, recordLook } from "./looks.ts";
import { planModelStatus } from "./plan.ts";
import { readableSize } from "./size.ts";

const FOLDER = new URL("golden/", import.meta.url);
const NOW = "2026-01-02T03:04:05Z";

interface Case {
  readonly model: Model;
  readonly hosts?: readonly Host[];
  readonly look?: LookResult;
}

const cases = readdirSync(FOLDER).filter((name) => name.endsWith(".input.yaml"));

test.each(cases)("golden: %s", (name) => {
  const { model, hosts = [], look }: Case = parse(readFileSync(new URL(name, FOLDER), "utf8"));
  const status = planModelStatus(
    { model, hosts, task: classifyModel(model), look, isKnown: isKnown(model) },
    NOW,
  );
  const expected = new URL(name.replace(".input.", ".plan."), FOLDER);
  if (process.env.UPDATE_GOLDEN === "1") writeFileSync(expected, stringify(status, { lineWidth: 0 }));
  expect(status).toEqual(parse(readFileSync(expected, "utf8")));
});

test("planning a second time with the first status changes nothing", () => {
  for (const name of cases) {
    const { model, hosts = [], look }: Case = parse(readFileSync(new URL(name, FOLDER), "utf8"));
    const observe = (seen: Model) => ({
      model: seen,
      hosts,
      task: classifyModel(seen),
      look,
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

const failure = (isPassing: boolean, retryAfterMs?: number): LookResult => ({
  at: "failed",
  code: "SourceUnreachable",
  message: "no",
  isPassing,
  retryAfterMs,
});
const found: LookResult = {
  at: "found",
  found: {
    format: "gguf",
    files: ["m.gguf"],
    sizeBytes: 1,
    revision: "r",
    sha256: undefined,
    gguf: undefined,
  },
};

test("what may pass is tried again after 5 s, doubling to 10 min; a server's own wish wins", () => {
  let last = recordLook(model(), undefined, failure(true), 0, 0);
  expect(last.nextAtMs).toBe(5_000);
  last = recordLook(model(), last, failure(true), 0, 0);
  expect(last.nextAtMs).toBe(10_000);
  for (let round = 0; round < 50; round++) last = recordLook(model(), last, failure(true), 0, 0);
  expect(last.nextAtMs).toBe(600_000);
  expect(recordLook(model(), last, failure(true, 7_000), 0, 0).nextAtMs).toBe(7_000);
  expect(recordLook(model(), last, failure(false), 0, 0)).toMatchObject({ nextAtMs: 600_000 });
  expect(recordLook(model(), last, found, 0, 0)).toMatchObject({ failures: 0, nextAtMs: undefined });
});

test("a source is looked at once per spec, and again only when its time has come", () => {
  expect(isLookDue(model(), undefined, 0)).toBe(true);
  const last = recordLook(model(), undefined, failure(true), 0, 0);
  expect(isLookDue(model(), last, 4_999)).toBe(false);
  expect(isLookDue(model(), last, 5_000)).toBe(true);
  const edited = { ...model(), metadata: { ...model().metadata, generation: 2 } };
  expect(isLookDue(edited, last, 0)).toBe(true);
  const done = recordLook(model(), undefined, found, 0, 0);
  expect(isLookDue(model(), done, 1e12)).toBe(false);
  expect(
    isLookDue(
      model({ refreshPolicy: "OnChange" }),
      recordLook(model({ refreshPolicy: "OnChange" }), undefined, found, 0, 0),
      600_000,
    ),
  ).toBe(true);
});

test("a new leader looks only at what is not known", () => {
  const status = { phase: "Ready" as const, observedGeneration: 1, files: ["m.gguf"] };
  expect(isLookDue({ ...model(), status }, undefined, 0)).toBe(false);
  expect(isLookDue({ ...model(), status: { ...status, observedGeneration: 0 } }, undefined, 0)).toBe(true);
  expect(isLookDue({ ...model({ refreshPolicy: "OnChange" }), status }, undefined, 0)).toBe(true);
});

test("sizes read well", () => {
  expect([0, 1023, 1536, 4_831_838_208].map(readableSize)).toEqual(["0 B", "1023 B", "1.5 KiB", "4.5 GiB"]);
});
