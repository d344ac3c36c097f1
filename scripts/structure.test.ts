import { expect, test } from "vitest";
import { findHeavyRooms, findRings, findStructure, largestRing, weighRooms } from "./structure/find.ts";
import { purePatterns } from "./structure/layers.ts";

const use = (from: string) => `import { x } from "${from}";\n\nexport const y = x;\n`;

const forbidden: readonly (readonly [file: string, imported: string])[] = [
  ["src/capacity/a.ts", "node:fs"],
  ["src/capacity/b.ts", "pino"],
  ["src/capacity/c.ts", "@kubernetes/client-node"],
  ["src/capacity/d.ts", "../kube/client.ts"],
  ["src/capacity/e.ts", "../../agent/x.ts"],
  ["src/a.ts", "node:fs"],
  ["src/b.ts", "../agent/x.ts"],
  ["src/api/a.ts", "../models/x.ts"],
  ["src/models/a.ts", "../engines/x.ts"],
  ["src/engines/a.ts", "../capacity/x.ts"],
  ["src/engines/llamacpp/b.ts", "node:fs"],
  ["src/kube/b.ts", "../models/x.ts"],
  ["src/hub/a.ts", "../engines/x.ts"],
  ["src/http/a.ts", "../kube/x.ts"],
  ["src/macos/a.ts", "../kube/x.ts"],
  ["controller/pods/workload/a.ts", "../../../src/kube/client/client.ts"],
  ["controller/pods/workload/b.ts", "node:fs"],
  ["controller/pods/workload/c.ts", "../../../controller/main.ts"],
  ["src/capacity/k.ts", "../../fitness/scoring/x.ts"],
  ["src/doctor/a.ts", "node:fs"],
  ["src/doctor/b.ts", "../macos/x.ts"],
  ["src/capacity/j.ts", "../doctor/x.ts"],
  ["agent/replicas/serve/plan.ts", "node:fs"],
  ["agent/replicas/evidence/a.ts", "../../../src/kube/x.ts"],
  ["agent/pressure/governor/a.ts", "node:fs"],
  ["local/a.ts", "../cli/x.ts"],
  ["src/kube/a.ts", "../../controller/x.ts"],
  ["agent/a.ts", "../controller/x.ts"],
  ["agent/b.ts", "../cli/x.ts"],
  ["agent/deep/c.ts", "../../controller/x.ts"],
  ["agent/f.ts", "./testing/x.ts"],
  ["controller/a.ts", "../agent/x.ts"],
  ["controller/b.ts", "../launchd/x.ts"],
  ["controller/c.ts", "../server/x.ts"],
  ["controller/d.ts", "../fitness/x.ts"],
  ["controller/frame/a.ts", "../hosts/x.ts"],
  ["controller/frame/b.ts", "../options/labels/option.ts"],
  ["controller/hosts/a.ts", "../pods/x.ts"],
  ["controller/pods/a.ts", "../hosts/x.ts"],
  ["controller/services/a.ts", "../options/labels/option.ts"],
  ["controller/lead/a.ts", "../options/registry.ts"],
  ["controller/options/labels/a.ts", "../idle/x.ts"],
  ["agent/g.ts", "../fitness/x.ts"],
  ["server/a.ts", "../controller/x.ts"],
  ["fitness/density/a.ts", "node:fs"],
  ["fitness/density/b.ts", "../../src/kube/client/x.ts"],
  ["launchd/a.ts", "../agent/x.ts"],
  ["cli/a.ts", "../scripts/x.ts"],
  ["cli/b.ts", "../test/x.ts"],
  ["scripts/a.ts", "../test/fixtures/x.ts"],
];

const allowed: readonly (readonly [file: string, imported: string])[] = [
  ["src/capacity/ok.ts", "zod"],
  ["src/capacity/hash.ts", "node:crypto"],
  ["src/util/plain-file.ts", "node:fs"],
  ["src/hub/ok.ts", "node:https"],
  ["controller/pods/workload/ok.ts", "../../../src/kube/workload-objects.ts"],
  ["src/macos/ok.ts", "node:child_process"],
  ["local/ok.ts", "../agent/ok.ts"],
  ["src/kube/ok.ts", "node:https"],
  ["agent/testing/ok.ts", "../../controller/x.ts"],
  ["agent/ok.ts", "../src/capacity/ok.ts"],
  ["fitness/density/ok.ts", "../../src/kube/workload-objects.ts"],
  ["server/ok.ts", "../src/kube/ok.ts"],
  ["controller/ok.ts", "../src/kube/ok.ts"],
  ["controller/main.ts", "../fitness/ok.ts"],
  ["controller/options/labels/ok.ts", "./plan.ts"],
  ["controller/options/labels/also-ok.ts", "../../pods/ok.ts"],
  ["controller/options/registry.ts", "./labels/option.ts"],
  ["agent/main.ts", "../fitness/ok.ts"],
  ["cli/ok.ts", "../agent/ok.ts"],
  ["scripts/ok.ts", "../test/bed/test-fleet.ts"],
];

test.for(forbidden)("%s must not import %s", ([file, imported]) => {
  expect(findStructure([{ file, text: use(imported) }])).toEqual([expect.stringContaining(file)]);
});

test.for(allowed)("%s may import %s", ([file, imported]) => {
  expect(findStructure([{ file, text: use(imported) }])).toEqual([]);
});

test("a pure folder may take types from a file with effects, and nothing else", () => {
  const file = "agent/replicas/stop/plan.ts";
  expect(findStructure([{ file, text: 'import type { X } from "../runner.ts";\n' }])).toEqual([]);
  expect(findStructure([{ file, text: 'import { type X } from "../runner.ts";\n' }])).toEqual([]);
  expect(findStructure([{ file, text: use("../runner.ts") }])).toHaveLength(1);
});

test("nothing imports a program of npm, tests included", () => {
  for (const file of ["scripts/words/a.ts", "src/b.test.ts"]) {
    const folders = file.split("/").length - 1;
    const text = use(`${"../".repeat(folders)}scripts/words.ts`);
    const sources = [
      { file, text },
      { file: "scripts/words.ts", text: "" },
    ];
    expect(findStructure(sources)).toContainEqual(expect.stringContaining("runs on import"));
  }
});

test("files must not form a circle, even by types alone", () => {
  const circle = [
    { file: "agent/a.ts", text: 'import type { B } from "./b.ts";\n' },
    { file: "agent/b.ts", text: 'export { C } from "./c.ts";\n' },
    { file: "agent/c.ts", text: 'const a = await import("./a.ts");\n' },
  ];
  expect(findStructure(circle)).toEqual(["circle of files: agent/a.ts, agent/b.ts, agent/c.ts"]);
});

test("folders must not form a circle of imports that run; types may point back", () => {
  const down = { file: "agent/a.ts", text: use("./deep/b.ts") };
  const up = (text: string) => ({ file: "agent/deep/c.ts", text });
  expect(findStructure([down, up(use("../d.ts"))])).toEqual(["circle of folders: agent, agent/deep"]);
  expect(findStructure([down, up('import type { D } from "../d.ts";\n')])).toEqual([]);
});

test("in the controller, folders must not form a large circle by types either, and rooms count types", () => {
  const by = (from: string, to: string) => ({
    file: `controller/${from}/a.ts`,
    text: `import type { X } from "../${to}/b.ts";\n`,
  });
  const names = ["frame/a", "frame/b", "frame/c", "frame/d"];
  const ring = (size: number) =>
    names
      .slice(0, size)
      .map((name, index) => by(name, (names[(index + 1) % size] ?? "").slice("frame/".length)));
  expect(findStructure(ring(3))).toEqual([]);
  expect(findStructure(ring(4))).toEqual([expect.stringContaining("circle of folders by types")]);
  expect(findStructure([by("frame", "hosts")])).toHaveLength(1);
});

test("a room above its budget is named, with what is too much; tests and fixtures weigh nothing", () => {
  const text = "one\ntwo\nthree\n";
  const files = ["agent/a.ts", "agent/deep/b.css", "agent/a.test.ts", "agent/testing/c.ts", "cli/a.ts"];
  const rooms = weighRooms(
    files.map((file) => ({ file, text })),
    { agent: 5, cli: 3 },
  );
  expect(rooms).toEqual([
    { name: "agent", files: 2, lines: 6, budget: 5, ring: [] },
    { name: "cli", files: 1, lines: 3, budget: 3, ring: [] },
  ]);
  expect(findHeavyRooms(rooms)).toEqual([
    expect.stringContaining("agent/ has 6 lines, 1 more than its budget"),
  ]);
});

const typeUse = (file: string, imported: string) => ({
  file,
  text: `import type { X } from "${imported}";\n`,
});

test("a ring is the folders that reach each other, also by types; sub-folders count as their own", () => {
  const ring = [
    typeUse("agent/a/x.ts", "./deep/x.ts"),
    typeUse("agent/a/deep/x.ts", "../../b/x.ts"),
    typeUse("agent/b/x.ts", "../a/y.ts"),
  ];
  const pair = [typeUse("agent/c/x.ts", "../d/x.ts"), typeUse("agent/d/x.ts", "../c/y.ts")];
  const oneWay = typeUse("agent/e/x.ts", "../a/x.ts");
  const otherRoom = typeUse("agent/f/x.ts", "../../src/x.ts");
  expect(largestRing([...pair, oneWay, otherRoom, ...ring])).toEqual(["agent/a", "agent/a/deep", "agent/b"]);
  expect(largestRing([oneWay, otherRoom])).toEqual([]);
});

test("a room may have a ring of three folders, or as many as it already has", () => {
  const ring = ["agent/a", "agent/b", "agent/c", "agent/d"];
  const rooms = ["agent", "cli"].map((name) => ({ name, files: 4, lines: 4, budget: 4, ring }));
  expect(findRings(rooms, { cli: 4 })).toEqual([
    "agent/ has a ring of 4 folders, more than 3: agent/a, agent/b, agent/c, agent/d",
  ]);
  expect(findRings(rooms, { agent: 4, cli: 4 })).toEqual([]);
  expect(
    findRings(
      rooms.map((room) => ({ ...room, ring: ring.slice(1) })),
      {},
    ),
  ).toEqual([]);
});

test("the linter forbids the globals of effects in pure folders, except in their files with effects", () => {
  expect(purePatterns()).toEqual(
    expect.arrayContaining(["fitness/**", "agent/replicas/serve/failure.ts", "!src/util/command.ts"]),
  );
});
