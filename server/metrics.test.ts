import { expect, test, vi } from "vitest";
import { createDensity } from "../fitness/density/density.ts";
import { createFitIndex } from "../fitness/density/fits.ts";
import { aHost, catalogRecords } from "../fitness/density/fixtures/fleet.ts";
import { machineFromHost } from "../fitness/density/place.ts";
import { renderFamilies } from "../src/http/metrics/render.ts";
import { createTally } from "../src/http/metrics/tally.ts";
import { serverMetrics } from "./metrics.ts";

test("score and number of models are neither reported nor computed until the first scores are ready", () => {
  const density = createDensity(createFitIndex(catalogRecords()));
  density.setPlace("Host", "mac-1", machineFromHost(aHost("mac-1")));
  const summaryOf = vi.spyOn(density, "summaryOf");
  const scrape = (areScored: boolean) =>
    renderFamilies(serverMetrics(), {
      density,
      areScored,
      now: { wallMs: 0, monotonicMs: 0 },
      apiRequests: createTally(),
      process: { cpuSeconds: 0, residentBytes: 0, heapUsedBytes: 0, startedAtSeconds: 0 },
    });
  const early = scrape(false);
  expect(early).not.toMatch(/^metalbridge_density_node_(score|model_count)\{/m);
  expect(early).toContain('metalbridge_density_node_ram_total_gb{node="mac-1",kind="Host"} 64\n');
  expect(summaryOf).not.toHaveBeenCalled();
  expect(scrape(true)).toMatch(/^metalbridge_density_node_model_count\{node="mac-1",kind="Host"\} [1-9]/m);
});
