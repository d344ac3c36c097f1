/** The density API over a scripted fleet, alone in its process; the parent asks it by HTTP, and changes hosts by messages. */
import type { AddressInfo } from "node:net";
import { createDensity } from "../../../server/density/density.ts";
import { createFits } from "../../../server/density/fits.ts";
import { aHost, manyHosts, manyRecords } from "../../../server/density/fixtures/fleet.ts";
import { placeOfHost } from "../../../server/density/place.ts";
import { nodeRow } from "../../../server/density/views.ts";
import { createApp } from "../../../server/rest/app.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import type { Log } from "../../../src/ports.ts";

const [hosts = 1000, models = 1000] = process.argv.slice(2).map(Number);
const nothing = () => {};
const log: Log = { debug: nothing, info: nothing, warn: nothing, error: nothing, child: () => log };
const density = createDensity(createFits(manyRecords(models)));
const fleet = manyHosts(hosts);
for (const host of fleet) density.setPlace("Host", host.metadata.name, placeOfHost(host));
const now = () => ({ wallMs: Date.now(), monotonicMs: performance.now() });

const app = createApp({
  ...{ density, clock: systemClock, log, notReady: () => undefined },
  authorize: async () => ({ at: "allowed", user: "bench" }),
});
await app.listen({ port: 0, host: "127.0.0.1" });
const { port } = app.server.address() as AddressInfo;

export interface DensityChange {
  /** GiB that engines may claim: a budget that no other host has is a new class. */
  readonly budgetGib: number;
  readonly index: number;
}

process.on("message", ({ budgetGib, index }: DensityChange) => {
  const name = fleet[index % fleet.length]?.metadata.name ?? "";
  const host = aHost(name, { memoryGib: 64, budgetGib });
  const startedMs = performance.now();
  density.setPlace("Host", name, placeOfHost(host));
  const site = density.site(name);
  if (site !== undefined) nodeRow(density, site, now());
  const ms = performance.now() - startedMs;
  process.send?.({ ms, residentBytes: process.memoryUsage().rss });
});
process.on("disconnect", () => process.exit(0));
process.send?.({ port });
