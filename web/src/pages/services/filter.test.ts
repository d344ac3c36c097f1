import { expect, test } from "vitest";
import type { ServiceRow } from "../../../../src/console/rows.ts";
import { isFound } from "../../parts/table/filters.tsx";
import { reasonOf, SERVICE_FILTER } from "./filter.ts";

const row = (changes: Partial<ServiceRow> = {}): ServiceRow => ({
  namespace: "team",
  name: "chat",
  state: { word: "Ready", level: "ok" },
  phase: "Ready",
  message: "1 of 1 replicas ready",
  ready: 1,
  desired: 1,
  model: "qwen3-8b",
  quantization: "Q4_K_M",
  runtime: "llamacpp",
  on: "Hosts",
  mode: "chat",
  endpoint: "",
  hosts: ["mac-1"],
  performance: {},
  claimedBytes: 0,
  createdAt: "",
  resourceVersion: "1",
  ...changes,
});
const waiting = row({
  name: "big",
  state: { word: "Waiting for memory", level: "bad" },
  message: "a sentence of the phase",
  attention: { reason: "NoHostWithMemory", message: "needs 21.4 GiB, 18.0 GiB free on mac-3", level: "bad" },
});

test.each([
  ["", [], true],
  ["CHAT q4_k", [], true],
  ["mac-1 llamacpp", [], true],
  ["mac-2", [], false],
  ["", ["ok", "busy"], true],
  ["", ["bad"], false],
])("a ready service with words %j and levels %j: %j", (words, levels, expected) => {
  expect(isFound(row(), SERVICE_FILTER, words, levels)).toBe(expected);
});

test("a service is found by the reason for which it waits", () => {
  expect(isFound(waiting, SERVICE_FILTER, "nohostwithmemory", ["bad"])).toBe(true);
});

test("a service that serves has no reason; one that does not has the words of its condition, else of its phase", () => {
  expect(reasonOf(row())).toBe("");
  expect(reasonOf(waiting)).toBe("needs 21.4 GiB, 18.0 GiB free on mac-3");
  expect(reasonOf(row({ state: { word: "Starting", level: "busy" }, message: "loading" }))).toBe("loading");
});
