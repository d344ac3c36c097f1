import { expect, test } from "vitest";
import type { ServiceRow } from "../../../../../src/console/rows.ts";
import { edgeWidth, factsOf, groupServices, MAX_SERVICES, pathOf } from "./graph.ts";
import { type Box, layOut, type MachineId } from "./layout.ts";

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
  expect(groupServices(services(MAX_SERVICES))).toHaveLength(60);
  const byModel = groupServices(services(200));
  expect(byModel).toHaveLength(35);
  expect(byModel[0]).toMatchObject({ label: "team-0 / m-0" });
  const byNamespace = groupServices(services(5_000, (index) => ({ model: `m-${index}` })));
  expect(byNamespace.map(({ label }) => label)).toContain("team-6");
  expect(byNamespace).toHaveLength(7);
  const most = groupServices(
    services(5_000, (index) => ({ model: `m-${index}`, namespace: `n-${index % 300}` })),
  );
  expect(most).toHaveLength(60);
  expect(most.map(({ label }) => label)).toContain("241 more namespaces");
  for (const groups of [byModel, byNamespace, most])
    expect(groups.flatMap(({ services: keys }) => keys)).toHaveLength(groups === byModel ? 200 : 5_000);
});

test("a group sums its figures and shows the worst state", () => {
  const rows = [
    service(0, { performance: { tokensPerSecond: 5, requestsInFlight: 1 } }),
    service(1, { state: { word: "Failed", level: "bad" }, ready: 0, performance: { tokensPerSecond: 2 } }),
    service(2, { state: { word: "Idle", level: "idle" } }),
  ];
  const byKey = new Map(rows.map((row) => [`${row.namespace}/${row.name}`, row]));
  const group = { id: "g", label: "g", services: [...byKey.keys(), "team/deleted"], machines: [] };
  expect(factsOf(group, (key) => byKey.get(key))).toEqual({
    level: "bad",
    word: "1 × Failed",
    ready: 2,
    desired: 3,
    tokensPerSecond: 7,
    requestsInFlight: 1,
  });
});

test("a path has everything that a service or a machine touches", () => {
  const groups = groupServices(services(12));
  expect(pathOf(undefined, groups)).toBeUndefined();
  const ofMachine = pathOf({ kind: "machine", id: "mac-0" }, groups);
  expect([...(ofMachine?.groups ?? [])]).toEqual(["team-0/s-0", "team-2/s-9"]);
  expect([...(ofMachine?.machines ?? [])]).toEqual(["mac-0"]);
  expect([...(pathOf({ kind: "service", id: "team-2/s-9" }, groups)?.machines ?? [])]).toEqual(["mac-0"]);
});

test("edges are wider with traffic, within limits", () => {
  expect(edgeWidth(0, 0)).toBe(1);
  expect(edgeWidth(100, 0)).toBeGreaterThan(edgeWidth(10, 0));
  expect(edgeWidth(1e9, 0)).toBe(8);
});

test("cards never overlap, lanes stand side by side, and frames hold their machines", () => {
  const groups = groupServices(services(60));
  const all = [...machines(30), ...machines(10, "Node")];
  for (const look of ["card", "bar"] as const) {
    const { gateway, services: left, machines: right, frames } = layOut(groups, all, look);
    const boxes = [gateway, ...left.values(), ...right.values()];
    expect(boxes).toHaveLength(101);
    for (const [index, box] of boxes.entries())
      for (const other of boxes.slice(index + 1)) expect(overlaps(box, other)).toBe(false);
    expect(frames.map(({ kind }) => kind)).toEqual(["Host", "Node"]);
    const [first] = frames;
    const mac = right.get("mac-0");
    expect(first !== undefined && mac !== undefined && mac.x > first.x && mac.y > first.y).toBe(true);
  }
});

test("places do not depend on the order of the rows", () => {
  const rows = services(40);
  const once = layOut(groupServices(rows), machines(9), "card");
  const again = layOut(groupServices([...rows].reverse()), machines(9), "card");
  expect([...again.services].sort()).toEqual([...once.services].sort());
});

test("an empty farm has a gateway only", () => {
  const { gateway, services: left, machines: right, frames } = layOut([], [], "card");
  expect([left.size, right.size, frames.length, gateway.y]).toEqual([0, 0, 0, 0]);
});

test("a thousand machines and 5,000 services are grouped and placed within milliseconds", () => {
  const rows = services(5_000, (index) => ({
    hosts: [`mac-${index % 1_000}`, `mac-${(index * 7) % 1_000}`],
  }));
  const started = performance.now();
  const groups = groupServices(rows);
  layOut(groups, machines(1_000), "bar");
  expect(performance.now() - started).toBeLessThan(500);
});
