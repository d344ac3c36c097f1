import { expect, onTestFinished, test, vi } from "vitest";
import { createDensity } from "./density.ts";
import { createFitIndex } from "./fits.ts";
import { aHost, catalogRecords } from "./fixtures/fleet.ts";
import { machineFromHost } from "./place.ts";
import { precomputeFits } from "./precompute.ts";

const WAIT = { timeout: 60_000, interval: 5 };

function start() {
  const density = createDensity(createFitIndex(catalogRecords()));
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const state = { isListed: false };
  const areScored = precomputeFits(density, () => state.isListed, stop.signal);
  const add = (name: string, memoryGib: number) =>
    density.setPlace("Host", name, machineFromHost(aHost(name, { memoryGib })));
  return { density, state, areScored, add };
}

test("the first scores are ready once all listed machines are scored, and stay ready when machines are added", async () => {
  const { density, state, areScored, add } = start();
  add("a", 64);
  await vi.waitFor(() => expect(density.fits.precompute(0)).toBe(false), WAIT);
  expect(areScored()).toBe(false);
  add("b", 16);
  state.isListed = true;
  expect(areScored()).toBe(false);
  await vi.waitFor(() => expect(areScored()).toBe(true), WAIT);
  expect(density.fits.precompute(0)).toBe(false);
  add("c", 32);
  expect(areScored()).toBe(true);
});

test("a cluster without machines has nothing to score", () => {
  const { state, areScored } = start();
  expect(areScored()).toBe(false);
  state.isListed = true;
  expect(areScored()).toBe(true);
});
