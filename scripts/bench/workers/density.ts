/** The state of the density API over a scripted fleet, alone in its process; its parent changes hosts by messages. */
import { createDensity } from "../../../fitness/density/density.ts";
import { createFitIndex } from "../../../fitness/density/fits.ts";
import { aHost, manyHosts, manyRecords } from "../../../fitness/density/fixtures/fleet.ts";
import { machineFromHost } from "../../../fitness/density/place.ts";
import { nodeRow } from "../../../fitness/density/views.ts";

const [hosts = 1000, models = 1000] = process.argv.slice(2).map(Number);
const density = createDensity(createFitIndex(manyRecords(models)));
const fleet = manyHosts(hosts);
for (const host of fleet) density.setPlace("Host", host.metadata.name, machineFromHost(host));
const now = () => ({ wallMs: Date.now(), monotonicMs: performance.now() });

export interface DensityChange {
  /** GiB that engines may claim: a budget that no other host has is a new class. */
  readonly budgetGib: number;
  readonly index: number;
}

process.on("message", ({ budgetGib, index }: DensityChange) => {
  const name = fleet[index % fleet.length]?.metadata.name ?? "";
  const host = aHost(name, { memoryGib: 64, budgetGib });
  const startedMs = performance.now();
  density.setPlace("Host", name, machineFromHost(host));
  const site = density.site(name);
  if (site !== undefined) nodeRow(density, site, now());
  const ms = performance.now() - startedMs;
  process.send?.({ ms });
});
process.on("disconnect", () => process.exit(0));
// Every class is scored, as it is in a server that runs.
for (const site of density.sites()) nodeRow(density, site, now());
process.send?.("ready");
