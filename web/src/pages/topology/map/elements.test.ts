import { expect, test } from "vitest";
import type { HostRow, ServiceRow } from "../../../../../src/console/rows.ts";
import { figuresOf, levelsOf } from "../graph/figures.ts";
import { groupServices, pathOf, type Selection } from "../graph/graph.ts";
import { layOut } from "../graph/layout.ts";
import { edgesOf, nodesOf } from "./elements.ts";

const rows = [0, 1, 2].map(
  (index) =>
    ({
      namespace: "default",
      name: `s-${index}`,
      state: { word: "Ready", level: "ok" },
      ready: 1,
      desired: 1,
      hosts: [`mac-${index % 2}`],
      performance: { tokensPerSecond: 10 },
    }) as unknown as ServiceRow,
);
const machines = [0, 1].map((index) => ({ kind: "Host" as const, name: `mac-${index}` }));
const hosts = new Map(machines.map((machine) => [machine.name, machine as unknown as HostRow]));
const groups = groupServices(rows);
const layout = layOut(groups, machines, "card");
const select = () => {};

const figures = figuresOf(groups, rows, new Map());
const levels = levelsOf(groups, rows);

function shownWith(selection?: Selection) {
  return { groups, figures, levels, hosts, gateway: "", selection, path: pathOf(selection, groups), select };
}

test("a node or an edge is another object only if it shows something else", () => {
  const shown = shownWith();
  const nodes = nodesOf(layout, "card", shown, []);
  const edges = edgesOf(layout, shown, true, []);
  const faster = rows.map((row, index) =>
    index === 1 ? { ...row, performance: { tokensPerSecond: 90 } } : row,
  );
  const later = { ...shown, figures: figuresOf(groups, faster, figures) };
  const changed = nodesOf(layout, "card", later, nodes).filter((node) => !nodes.includes(node));
  expect(changed.map(({ id }) => id)).toEqual(["s default/s-1"]);
  const changedEdges = edgesOf(layout, later, true, edges).filter((edge) => !edges.includes(edge));
  expect(changedEdges.map(({ id }) => id)).toEqual(["g default/s-1", "default/s-1 mac-1"]);
});

test("off the chosen path, cards and edges are dimmed", () => {
  const shown = shownWith({ kind: "machine", id: "mac-1" });
  const off = (list: readonly { readonly id: string; readonly data?: Record<string, unknown> }[]) =>
    list.filter(({ data }) => data?.isOff === true).map(({ id }) => id);
  expect(off(nodesOf(layout, "card", shown, []))).toEqual(["s default/s-0", "s default/s-2", "m mac-0"]);
  expect(off(edgesOf(layout, shown, true, []))).toHaveLength(4);
});

test("where edges are too many, those to machines are drawn only for the chosen path", () => {
  expect(edgesOf(layout, shownWith(), false, []).map(({ source }) => source)).toEqual(
    rows.map(() => "gateway"),
  );
  const chosen = edgesOf(layout, shownWith({ kind: "machine", id: "mac-1" }), false, []);
  expect(chosen.map(({ target }) => target).filter((id) => id.startsWith("m "))).toEqual(["m mac-1"]);
});
