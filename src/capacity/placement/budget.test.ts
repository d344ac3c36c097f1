import { expect, test } from "vitest";
import type { Host } from "../../api/host.ts";
import { hostBudget } from "./budget.ts";

const GIB = 1024 ** 3;

function budgetOf(spec: object, memory?: object): ReturnType<typeof hostBudget> {
  return hostBudget({ spec: { memory: spec }, status: memory && { memory } } as unknown as Host);
}

test.each<[string, object, object | undefined, object]>([
  ["the operator's word", { gpuBudget: "48Gi" }, { totalBytes: 64 * GIB }, { bytes: 48 * GIB }],
  ["more than the host has", { gpuBudget: "96Gi" }, { totalBytes: 64 * GIB }, { bytes: 64 * GIB }],
  ["before the host has reported", { gpuBudget: "48Gi" }, undefined, { bytes: 48 * GIB }],
  ["the host's own", {}, { totalBytes: 64 * GIB, gpuBudgetBytes: 40 * GIB }, { bytes: 40 * GIB }],
  ["a share of a small one", {}, { totalBytes: 36 * GIB }, { bytes: Math.floor(36 * GIB * 0.67) }],
  ["a share of a large one", {}, { totalBytes: 64 * GIB }, { bytes: 48 * GIB }],
  ["less the reserve", { systemReserve: "8Gi" }, { totalBytes: 64 * GIB }, { bytes: 40 * GIB }],
  ["a reserve of more than there is", { systemReserve: "80Gi" }, { totalBytes: 64 * GIB }, { bytes: 0 }],
  [
    "a host that reports zero",
    {},
    { totalBytes: 0, gpuBudgetBytes: 0 },
    { known: false, why: "memory not reported" },
  ],
  ["a host that has reported nothing", {}, undefined, { known: false }],
  ["what is no quantity", { gpuBudget: "much" }, { totalBytes: 64 * GIB }, { known: false }],
])("%s", (_, spec, memory, expected) => {
  expect(budgetOf(spec, memory)).toMatchObject(expected);
});
