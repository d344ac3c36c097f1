import { expect, test } from "vitest";
import type { HostRow } from "../../../../src/console/rows.ts";
import type { SimulatedPlace } from "../../api/density.ts";
import { previewOf } from "./recommend.ts";

const GIB = 1024 ** 3;
const host = (name: string, usableGib: number) =>
  ({ kind: "Host", name, budgetBytes: (usableGib + 2) * GIB, reserveBytes: 2 * GIB }) as HostRow;
const place = (
  nodeName: string,
  estimatedTps: number,
  remainingMemoryGb: number,
  changes = {},
): SimulatedPlace => ({
  kind: "Host",
  nodeName,
  fitLevel: "good",
  availableMemoryGb: remainingMemoryGb + 10,
  requiredMemoryGb: 10,
  remainingMemoryGb,
  quantization: "Q4_K_M",
  estimatedTps,
  stale: false,
  schedulable: true,
  ...changes,
});
const HOSTS = [host("a", 32), host("b", 32), host("c", 64), host("d", 64)];
const shown = (rows: readonly SimulatedPlace[]) => {
  const { places, why, fitting } = previewOf(rows, HOSTS, 3);
  const names = places.map(
    ({ simulated, isRecommended }) => `${isRecommended ? "*" : ""}${simulated.nodeName}`,
  );
  return [names.join(" "), why, fitting];
};

test("the fastest that leaves a fifth free is recommended, and three are shown", () => {
  const rows = [place("a", 90, 2), place("b", 50, 12), place("c", 60, 30), place("d", 20, 50)];
  expect(shown(rows)).toEqual(["*c a b", "fastest with reserve", 4]);
});

test("replicas are counted by the memory of the machines that take them", () => {
  const rows = [place("a", 9, 2), place("c", 9, 30), place("d", 9, 90, { schedulable: false })];
  expect(previewOf(rows, HOSTS, 3).room).toBe(1 + 4);
  expect(previewOf([place("a", 9, 0, { fitLevel: "too_tight", availableMemoryGb: 2 })], HOSTS, 3).room).toBe(
    0,
  );
});

test("if none leaves a fifth free, the one that leaves most is", () => {
  expect(shown([place("a", 90, 2), place("b", 50, 5)])).toEqual(["*b a", "most memory left", 2]);
});

test("cordoned and stale machines are never recommended", () => {
  const rows = [
    place("c", 90, 40, { schedulable: false }),
    place("d", 80, 40, { stale: true }),
    place("b", 5, 20),
  ];
  expect(shown(rows)).toEqual(["*b", "fastest with reserve", 1]);
});

test("if the model fits nowhere, those that lack least are shown", () => {
  const miss = (name: string, availableMemoryGb: number) =>
    place(name, 1, 0, { fitLevel: "too_tight", availableMemoryGb });
  expect(shown([miss("a", 2), miss("b", 9), miss("c", 5), miss("d", 1)])).toEqual(["b c a", "none fits", 0]);
});

test("a machine whose budget is unknown counts as one without reserve", () => {
  expect(shown([place("unknown", 99, 40), place("d", 1, 40)])).toEqual([
    "*d unknown",
    "fastest with reserve",
    2,
  ]);
});

test("if all machines with the memory are cordoned or stale, that is the reason and not the memory", () => {
  const rows = [
    place("c", 90, 40, { schedulable: false }),
    place("d", 80, 40, { stale: true }),
    place("a", 80, -4, { fitLevel: "too_tight" }),
  ];
  const { why, fitting, places } = previewOf(rows, HOSTS, 3);
  expect([why, fitting]).toEqual(["none accepts", 0]);
  expect(places.map(({ obstacle }) => obstacle)).toEqual(["cordoned", "stale", undefined]);
});
