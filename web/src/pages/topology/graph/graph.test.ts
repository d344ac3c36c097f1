import { expect, test } from "vitest";
import type { ServiceRow } from "../../../../../src/console/rows.ts";
import { cpuMilliseconds } from "../../../testing/cpu-milliseconds.ts";
import { edgeKey, figuresOf, levelsOf } from "./figures.ts";
import {
  edgeWidth,
  groupServices,
  hasSameMembers,
  MAX_SERVICES,
  type MachineId,
  pathOf,
  withTheirMachines,
} from "./graph.ts";
import { type Box, layOut, startOf } from "./layout.ts";

function service(index: number, changes: Partial<ServiceRow> = {}): ServiceRow {
  const base = {
    namespace: `team-${index % 7}`,
    name: `s-${index}`,
    model: `m-${index % 5}`,
    state: { word: "Ready", level: "ok" },
    ready: 1,
    desired: 1,
    hosts: [`mac-${index % 9}`],
    performance: {},
  };
  return { ...base, ...changes } as ServiceRow;
}

const services = (count: number, change: (index: number) => Partial<ServiceRow> = () => ({})) =>
  Array.from({ length: count }, (_, index) => service(index, change(index)));

function machines(count: number, kind: "Host" | "Node" = "Host"): readonly MachineId[] {
  return Array.from({ length: count }, (_, index) => ({
    kind,
    name: `${kind === "Host" ? "mac" : "node"}-${index}`,
  }));
}

const overlaps = (a: Box, b: Box) =>
  a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;

test("many services become groups of a model, then of a namespace, then the largest and the rest", () => {
  expect(groupServices(services(MAX_SERVICES))).toHaveLength(MAX_SERVICES);
  const byModel = groupServices(services(200, (index) => ({ model: `m-${index % 4}` })));
  expect(byModel).toHaveLength(28);
  expect(byModel[0]).toMatchObject({ name: "m-0", namespace: "team-0" });
  const byNamespace = groupServices(services(5_000, (index) => ({ model: `m-${index}` })));
  expect(byNamespace.map(({ name }) => name)).toContain("team-6");
  expect(byNamespace).toHaveLength(7);
  const most = groupServices(
    services(5_000, (index) => ({ model: `m-${index}`, namespace: `n-${index % 300}` })),
  );
  expect(most).toHaveLength(MAX_SERVICES);
  expect(most.map(({ name }) => name)).toContain("271 more namespaces");
  for (const groups of [byModel, byNamespace, most])
    expect(groups.flatMap(({ services: keys }) => keys)).toHaveLength(groups === byModel ? 200 : 5_000);
});

test("groups hold as long as no service comes, goes, moves or changes its model", () => {
  const before = services(40);
  expect(
    hasSameMembers(
      before,
      services(40, () => ({ ready: 0, performance: { tokensPerSecond: 3 } })),
    ),
  ).toBe(true);
  expect(hasSameMembers(before, services(41))).toBe(false);
  const change = (changes: Partial<ServiceRow>) => services(40, (index) => (index === 7 ? changes : {}));
  expect(hasSameMembers(before, change({ hosts: ["mac-8"] }))).toBe(false);
  expect(hasSameMembers(before, change({ hosts: [] }))).toBe(false);
  expect(hasSameMembers(before, change({ model: "m-new" }))).toBe(false);
});

test("a group sums its figures and shows the worst state", () => {
  const rows = [
    service(0, { performance: { tokensPerSecond: 5, requestsInFlight: 1 } }),
    service(1, { state: { word: "Failed", level: "bad" }, ready: 0, performance: { tokensPerSecond: 2 } }),
    service(2, { state: { word: "Idle", level: "idle" } }),
  ];
  const keys = rows.map(({ namespace, name }) => `${namespace}/${name}`);
  const group = { id: "g", name: "g", namespace: "", services: [...keys, "team/deleted"], machines: [] };
  expect(figuresOf([group], rows, new Map()).get("g")).toEqual({
    level: "bad",
    word: "1 × Failed",
    ready: 2,
    desired: 3,
    tokensPerSecond: 7,
    requestsInFlight: 1,
  });
});

test("an edge has the worst state of the group's services on its machine", () => {
  const rows = services(31, (index) => ({
    namespace: "team",
    model: "m",
    hosts: index === 0 ? [] : [`mac-${index % 2}`],
    state: index === 0 || index === 3 ? { word: "Failed", level: "bad" } : { word: "Ready", level: "ok" },
  }));
  const groups = groupServices(rows);
  const levels = levelsOf(groups, rows);
  expect([levels.get(edgeKey("team/m", "mac-0")), levels.get(edgeKey("team/m", "mac-1"))]).toEqual([
    "ok",
    "bad",
  ]);
});

test("figures that are unchanged stay the same object", () => {
  const rows = services(3);
  const groups = groupServices(rows);
  const before = figuresOf(groups, rows, new Map());
  const now = figuresOf(groups, [...rows.slice(0, 2), service(2, { ready: 0 })], before);
  const [first, second, third] = groups.map(({ id }) => now.get(id) === before.get(id));
  expect([first, second, third]).toEqual([true, true, false]);
});

test("a path has everything that a service or a machine touches", () => {
  const groups = groupServices(services(12));
  expect(pathOf(undefined, groups)).toBeUndefined();
  const ofMachine = pathOf({ kind: "machine", id: "mac-0" }, groups);
  expect([...(ofMachine?.groups ?? [])]).toEqual(["team-0/s-0", "team-2/s-9"]);
  expect([...(ofMachine?.machines ?? [])]).toEqual(["mac-0"]);
  expect(pathOf({ kind: "service", id: "team-2/gone" }, groups)).toBeUndefined();
  expect([...(pathOf({ kind: "service", id: "team-2/s-9" }, groups)?.machines ?? [])]).toEqual(["mac-0"]);
});

test("a chosen state keeps the machines that have it, and those of the services that have it", () => {
  const host = (name: string, level: "ok" | "bad") => ({ name, state: { word: "", level } });
  const hosts = [host("a", "ok"), host("b", "bad"), host("c", "ok")];
  const names = (chosen: readonly string[]) =>
    withTheirMachines(hosts, [{ hosts: ["c"] }], chosen).map(({ name }) => name);
  expect(names([])).toEqual(["a", "b", "c"]);
  expect(names(["bad"])).toEqual(["b", "c"]);
});

test("edges are wider with traffic, within limits", () => {
  expect(edgeWidth(0, 0)).toBe(1);
  expect(edgeWidth(100, 0)).toBeGreaterThan(edgeWidth(10, 0));
  expect(edgeWidth(1e9, 0)).toBe(8);
});

test("cards never overlap, lanes stand side by side, and frames hold their machines", () => {
  const groups = groupServices(services(MAX_SERVICES));
  const all = [...machines(30), ...machines(10, "Node")];
  for (const look of ["card", "bar"] as const) {
    const { gateway, services: left, machines: right, frames } = layOut(groups, all, look);
    const boxes = [gateway, ...left.values(), ...right.values()];
    expect(boxes).toHaveLength(1 + MAX_SERVICES + 40);
    for (const [index, box] of boxes.entries())
      for (const other of boxes.slice(index + 1)) expect(overlaps(box, other)).toBe(false);
    expect(frames.map(({ kind }) => kind)).toEqual(["Host", "Node"]);
    const [first] = frames;
    const mac = right.get("mac-0");
    expect(first !== undefined && mac !== undefined && mac.x > first.x && mac.y > first.y).toBe(true);
  }
});

test("places do not depend on the order of the rows", () => {
  const rows = services(MAX_SERVICES);
  const once = layOut(groupServices(rows), machines(9), "card");
  const again = layOut(groupServices([...rows].reverse()), machines(9), "card");
  expect([...again.services].sort()).toEqual([...once.services].sort());
});

test("all machines in one column have edges that pass behind no card", () => {
  expect(layOut([], machines(12), "card").isOneColumn).toBe(true);
  expect(layOut([], machines(13), "card").isOneColumn).toBe(false);
  expect(layOut([], [...machines(60), ...machines(60, "Node")], "bar").isOneColumn).toBe(true);
  expect(layOut([], machines(200), "bar").isOneColumn).toBe(false);
});

test("the map starts whole where it is readable, else with its upper left part, and knows that it is cut", () => {
  const canvas = { width: 1_000, height: 600 };
  expect(startOf({ width: 500, height: 300 }, canvas)).toEqual({ x: 250, y: 16, zoom: 1, isCut: false });
  expect(startOf({ width: 968, height: 3_000 }, canvas)).toEqual({ x: 16, y: 16, zoom: 1, isCut: true });
  expect(startOf({ width: 3_000, height: 3_000 }, canvas)).toMatchObject({ zoom: 0.8, isCut: true });
  expect(startOf({ width: 1_076, height: 500 }, canvas).zoom).toBeCloseTo(0.9);
});

test("an empty farm has a gateway only", () => {
  const { gateway, services: left, machines: right, frames } = layOut([], [], "card");
  expect([left.size, right.size, frames.length, gateway.y]).toEqual([0, 0, 0, 0]);
});

test("a thousand machines and 5,000 services are grouped and placed in little CPU time", () => {
  const rows = services(5_000, (index) => ({
    hosts: [`mac-${index % 1_000}`, `mac-${(index * 7) % 1_000}`],
  }));
  const taken = cpuMilliseconds(() => layOut(groupServices(rows), machines(1_000), "bar"));
  expect(taken).toBeLessThan(1_000);
});
