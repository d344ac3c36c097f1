/** Part of docs/fitness.md: errors of the estimated speeds, by class of machines. */
import { readFileSync } from "node:fs";
import { createMatcher } from "../../fitness/catalog/match.ts";
import { readCatalog } from "../../fitness/catalog/record.ts";
import { readResults, resultFiles } from "../../fitness/fixtures/results.ts";
import {
  calibrate,
  machineOfClass,
  type SpeedRatio,
  speedRatios,
} from "../../fitness/scoring/calibration.ts";
import { markdownTable } from "./markdown.ts";

const CATALOG = new URL("../../catalog/models.jsonl", import.meta.url);

/** A row for each class, and one for all. */
export function speedErrorLines(): readonly string[] {
  const match = createMatcher(readCatalog(readFileSync(CATALOG, "utf8")).records);
  const ratios = speedRatios(
    resultFiles().flatMap((file) => readResults(file).results),
    match,
  );
  const rows = ratios.map((one) => ({
    deviceClass: one.deviceClass,
    error: errorOf(one.ratio),
    corrected: errorOf(one.ratio / factorWithout(one, ratios)),
  }));
  const classes = [...Map.groupBy(rows, ({ deviceClass }) => deviceClass)].sort(([a], [b]) =>
    a < b ? -1 : 1,
  );
  return markdownTable(
    ["class", "measurements", "median error", "with the other measurements"],
    [...classes, ["all", rows] as const].map(([name, own]) => [
      name,
      String(own.length),
      percent(own.map(({ error }) => error)),
      percent(own.map(({ corrected }) => corrected)),
    ]),
  );
}

/** The correction of a measurement by all others. */
function factorWithout(one: SpeedRatio, ratios: readonly SpeedRatio[]): number {
  const machine = machineOfClass(one.deviceClass);
  const others = ratios.filter((other) => other !== one);
  return (machine && calibrate(machine, others).speedFactors?.[one.family]?.factor) ?? 1;
}

function errorOf(ratio: number): number {
  return Math.abs(1 / ratio - 1);
}

function percent(values: readonly number[]): string {
  const middle = [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
  return `${Math.round(100 * middle)} %`;
}
