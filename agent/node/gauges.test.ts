import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { steadyReport } from "../../src/api/node-report.ts";
import { renderFamilies } from "../../src/http/metrics/render.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { rootsUnder } from "../host/linux/roots.ts";
import { createGpuGauges, nodeMetrics } from "./gauges.ts";

test("the utilization is the mean of the last minute, and the temperature is the last one", async () => {
  await using folder = await temporaryFolder();
  const information = join(folder.path, "proc/driver/nvidia/gpus/0000:17:00.0/information");
  for (const file of [information, join(folder.path, "dev/nvidiactl")]) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, "Model: NVIDIA L4\n");
  }
  let nowMs = 0;
  let row = "";
  const clock = { monotonicMs: () => nowMs };
  const gauges = createGpuGauges(rootsUnder(folder.path), async () => row, clock);
  for (const [atMs, found] of [
    [0, "17:00.0, 40, 100"],
    [30_000, "17:00.0, 50, 20"],
    [61_000, "17:00.0, 60, 40"],
  ] as const) {
    [nowMs, row] = [atMs, found];
    await gauges.sample();
  }
  const text = renderFamilies(nodeMetrics, { node: "gpu-1", gpus: gauges.latest() });
  expect(text).toContain('metalbridge_gpu_temperature_celsius{gpu="0000:17:00.0",node="gpu-1"} 60\n');
  expect(text).toMatch(/metalbridge_gpu_utilization_ratio{gpu="0000:17:00.0",node="gpu-1"} 0.3\d*\n/);
  // A GPU that vanished has no value.
  row = "";
  nowMs = 200_000;
  await gauges.sample();
  expect(gauges.latest()).toEqual([{ gpu: "0000:17:00.0" }]);
});

test("the report has the utilization in steps of a tenth, and keeps it while it changes by less", () => {
  const empty = { cpu: {}, gpus: [], runtimes: [], models: [], leftOut: [] };
  const published: (number | undefined)[] = [];
  let before: ReturnType<typeof steadyReport> | undefined;
  for (const gpuUtilization of [0.33, 0.24, 0.36, 0.41, 1, undefined]) {
    before = steadyReport(before, { ...empty, gpuUtilization });
    published.push(before.gpuUtilization);
  }
  expect(published).toEqual([0.3, 0.3, 0.3, 0.4, 1, undefined]);
});
