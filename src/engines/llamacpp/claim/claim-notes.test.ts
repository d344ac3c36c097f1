import { expect, test } from "vitest";
import { claimNotes, contextBeyondTraining } from "./claim-notes.ts";

const of = (contextLength: number, settings: Parameters<typeof contextBeyondTraining>[1]) =>
  contextBeyondTraining({ contextLength }, settings) ?? "";

test("a context within what the model was trained for needs no note, of each slot and of all together", () => {
  expect(of(4096, { contextSize: 8192, parallelSlots: 2 })).toBe("");
  expect(of(4096, { contextSize: 8193, parallelSlots: 2 })).toBe("");
  expect(of(0, { contextSize: 8192 })).toBe("");
  expect(claimNotes({ contextLength: 4096 }, {})).toEqual([]);
});

test("one beyond it says what a request could use, and how much is enough", () => {
  expect(of(4096, { contextSize: 8194, parallelSlots: 2 })).toMatch(
    /^a request could use 4097 tokens, but the model was trained for 4096: .* contextSize of 8192 is enough$/,
  );
  expect(of(4096, { contextSize: 8192, parallelSlots: 2, kvUnified: true })).toMatch(
    /could use 8192 .* contextSize of 4096 is enough$/,
  );
  expect(of(4096, { contextSize: 65_536, parallelSlots: 2, kvUnified: false })).toContain("32768 tokens");
});

test("yarn stretches what is usable, as the engine counts it; linear scaling does not", () => {
  const yarn = (more: object) => ({ ropeScaling: { type: "yarn" as const, ...more } });
  expect(of(32_768, { contextSize: 65_536, ...yarn({ factor: "2" }) })).toBe("");
  expect(of(32_768, { contextSize: 65_536, ...yarn({ factor: "4", originalContext: 8192 }) })).toContain(
    "trained for 32768: ",
  );
  expect(of(32_768, { contextSize: 65_537, ...yarn({ factor: "2" }) })).toMatch(
    /trained for 32768 and is extended to 65536: .* contextSize of 65536 is enough$/,
  );
  expect(of(32_768, { contextSize: 65_536, ...yarn({}) })).not.toBe("");
  expect(of(32_768, { contextSize: 65_536, ropeScaling: { type: "linear", factor: "4" } })).not.toBe("");
});
