import { expect, test } from "vitest";
import type { Demand, HostFacts } from "../placement/types.ts";
import { explainFit } from "./fit.ts";
import type { ClaimWith } from "./variants.ts";

const GIB = 1024 ** 3;

const host: HostFacts = {
  name: "mac-1",
  labels: {},
  isLost: false,
  pressures: [],
  runtimes: ["llamacpp"],
  models: [],
  ready: { status: "True" },
  reachable: { status: "True" },
  budget: { known: true, bytes: 16 * GIB, basis: "test" },
};

function demandOf(memory: Demand["memory"]): Demand {
  return {
    service: "x/1",
    ordinal: 0,
    priority: 10_000,
    since: 0,
    runtime: "llamacpp",
    memory,
    speeds: {},
    weights: { source: "file:///models/a.gguf" },
    predecessors: [],
    refusals: [],
    choice: { hosts: [], spread: "Preferred" },
  };
}

function fitsOf(memory: Demand["memory"], facts: HostFacts = host): unknown {
  const demand = demandOf(memory);
  const input = { hosts: [facts], claims: [], demand, settings: {}, claimWith: () => undefined };
  return explainFit(input, 0).hosts[0]?.fits;
}

test("changes that help are looked for on the ten hosts that come nearest, however many there are", () => {
  const hosts = Array.from({ length: 40 }, (_, index): HostFacts => {
    const budget = { known: true, bytes: (10 + (index % 20)) * GIB, basis: "test" } as const;
    return {
      ...host,
      name: `mac-${index}`,
      ...(index < 20 ? { budget } : { cordon: "unschedulable", budget }),
    };
  });
  const asked = new Set<unknown>();
  const claimWith: ClaimWith = ({ contextSize = 0 }, on) => {
    asked.add(on);
    return 8 * GIB + contextSize;
  };
  const demand = demandOf({ known: true, bytes: 64 * GIB });
  const input = { hosts, claims: [], demand, settings: { contextSize: 32_768 }, claimWith };
  const report = explainFit(input, 0);
  expect(report.hosts).toHaveLength(40);
  const helped = report.hosts.filter(({ helps = [] }) => helps.length > 0).map((one) => one.host);
  expect(helped).toEqual(Array.from({ length: 10 }, (_, index) => `mac-${19 - index}`));
  expect(asked.size).toBe(10);
});

test("a claim that only the host can tell does not count as fitting", () => {
  expect(fitsOf({ known: true, bytes: 8 * GIB })).toBe(true);
  expect(fitsOf({ known: true, bytes: 32 * GIB })).toBe(false);
  expect(fitsOf({ known: false })).toBe("unknown");
  expect(fitsOf({ known: false }, { ...host, cordon: "unschedulable" })).toBe(false);
});
