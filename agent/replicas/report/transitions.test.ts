import { expect, test } from "vitest";
import type { ReplicaTransition } from "../../../src/api/inference-replica.ts";
import { addTransition, isTransition } from "./transitions.ts";

const at = "2026-01-01T00:00:00Z";

test("a transition is a new phase or a new failure, not a step within a phase or a phase of milliseconds", () => {
  const waiting = { phase: "Waiting", reason: "InsufficientMemory" } as const;
  const fetching = { phase: "Fetching", reason: "DownloadingModel" } as const;
  expect(isTransition(undefined, fetching)).toBe(true);
  expect(isTransition({ phase: "Fetching", reason: "Other" }, fetching)).toBe(false);
  expect(isTransition({ phase: "Waiting", reason: "MemoryUnknown" }, waiting)).toBe(true);
  expect(isTransition({ phase: "Waiting", reason: "InsufficientMemory" }, waiting)).toBe(false);
  expect(isTransition(waiting, { phase: "Admitting", reason: "AdmittingMemory" })).toBe(false);
});

test("the last ten transitions are kept, newest last, with their message", () => {
  let list: readonly ReplicaTransition[] = [];
  for (let round = 0; round < 8; round++) {
    list = addTransition(list, { phase: "Starting", reason: "LoadingModel", message: `start ${round}` }, at);
    const same = addTransition(list, { phase: "Starting", reason: "ProvingRequest", message: "x" }, at);
    expect(same).toBe(list);
    list = addTransition(list, { phase: "Backoff", reason: "EngineCrashed", message: "m".repeat(5_000) }, at);
  }
  expect(list).toHaveLength(10);
  expect(list[0]).toEqual({ at, phase: "Starting", reason: "LoadingModel", message: "start 3" });
  expect(list[9]?.message).toHaveLength(512);
});
