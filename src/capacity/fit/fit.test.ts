import { expect, test } from "vitest";
import type { Demand, HostFacts } from "../placement/types.ts";
import { explainFit } from "./fit.ts";

const GIB = 1024 ** 3;

const host: HostFacts = {
  ...{ name: "mac-1", labels: {}, isLost: false, pressures: [], runtimes: ["llamacpp"], models: [] },
  ...{ ready: { status: "True" }, reachable: { status: "True" } },
  budget: { known: true, bytes: 16 * GIB, basis: "test" },
};

function fitsOf(memory: Demand["memory"], facts: HostFacts = host): unknown {
  const demand: Demand = {
    ...{ service: "x/1", ordinal: 0, priority: 10_000, since: 0, runtime: "llamacpp", memory },
    ...{ weights: { source: "file:///models/a.gguf" }, predecessors: [], refusals: [] },
    choice: { hosts: [], spread: "Preferred" },
  };
  const input = { hosts: [facts], claims: [], demand, settings: {}, claimWith: () => undefined };
  return explainFit(input, 0).hosts[0]?.fits;
}

test("a claim that only the host can tell does not count as fitting", () => {
  expect(fitsOf({ known: true, bytes: 8 * GIB })).toBe(true);
  expect(fitsOf({ known: true, bytes: 32 * GIB })).toBe(false);
  expect(fitsOf({ known: false })).toBe("unknown");
  expect(fitsOf({ known: false }, { ...host, cordon: "unschedulable" })).toBe(false);
});
