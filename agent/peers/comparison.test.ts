/** The time limits of peers. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";
import { chunkTimeoutMs, isPeerTooSlow, maxPeerRate, PeerTimeBudget } from "./comparison.ts";

const limits = { chunkMs: 500, reserveMs: 8_000 };
const MB = 1e6;

test.each([
  ["unknown", undefined, 500],
  ["100 MB/s", 100 * MB, 168],
  ["10 MB/s", 10 * MB, 1_678],
  ["slow", 0.1 * MB, 60_000],
  ["nothing", 0, 60_000],
])("a chunk may take twice what the source would need for two: %s", (_, rate, expectedMs) => {
  expect(Math.round(chunkTimeoutMs(rate, limits))).toBe(expectedMs);
});

test("n chunks take at most their own time plus the reserve, for any distribution of delays", () => {
  const rate = fc.option(fc.double({ min: 0, max: 1e9, noNaN: true }), { nil: undefined });
  const parts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 200 });
  fc.assert(
    fc.property(parts, rate, (chunks, source) => {
      const patience = new PeerTimeBudget(limits);
      let tookMs = 0;
      for (const part of chunks) {
        const ms = part * patience.deadlineMs(source);
        patience.spend(ms, source);
        tookMs += ms;
      }
      const mayMs = limits.reserveMs + chunks.length * chunkTimeoutMs(source, limits);
      expect(tookMs).toBeLessThanOrEqual(mayMs * (1 + 1e-9));
    }),
  );
});

test("requests that return no chunk use up the reserve, even if each one is short", () => {
  const patience = new PeerTimeBudget(limits);
  for (let round = 0; round < 40; round += 1) patience.waste(200);
  expect(patience.deadlineMs(undefined)).toBe(limits.chunkMs);
  patience.spend(100, undefined);
  expect(patience.deadlineMs(undefined)).toBe(2 * limits.chunkMs - 100);
});

test("a peer is too slow if its maximum possible rate is less than half of the source's rate", () => {
  const peerRate = maxPeerRate(8_500);
  expect(Math.round(peerRate / CHUNK_BYTES / (2 / 8.5))).toBe(1);
  expect(isPeerTooSlow(peerRate, 100 * MB)).toBe(true);
  expect(isPeerTooSlow(peerRate, 1 * MB)).toBe(false);
});
