import { expect, test } from "vitest";
import type { StateWord } from "../../../../src/console/rows.ts";
import { countHealths, withTheirMachines } from "./health.ts";

const host = (name: string, level: StateWord["level"]) => ({ name, state: { word: "", level } });

test("a chosen state keeps the machines that have it, and those of the services that have it", () => {
  const hosts = [host("a", "ok"), host("b", "bad"), host("c", "ok")];
  const names = (chosen: readonly string[]) =>
    withTheirMachines(hosts, [{ hosts: ["c"] }], chosen).map(({ name }) => name);
  expect(names([])).toEqual(["a", "b", "c"]);
  expect(names(["attention"])).toEqual(["b", "c"]);
});

test("warnings and failures need attention", () => {
  const rows = [host("a", "warn"), host("b", "bad"), host("c", "ok")];
  expect(countHealths(rows)).toEqual({ ok: 1, busy: 0, attention: 2, idle: 0 });
});
