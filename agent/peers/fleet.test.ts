/** Simulates 40 GB for 50 hosts behind one uplink, with the product's choice of peers. */
import { expect, test } from "vitest";
import { type SimulatedHost, simulateFleet } from "./fixtures/simulated-fleet.ts";

const GB = 1e9;
/** One gigabit per second. */
const GIGABIT = 125e6;
const MAX_RATE = 100 * 2 ** 20;

const fleet = {
  contentBytes: 40 * GB,
  uplink: GIGABIT,
  link: GIGABIT,
  maxRate: MAX_RATE,
  lagMs: 1_000,
  noticeMs: 20_000,
};
const hosts = (count: number, startsAtMs: (index: number) => number): SimulatedHost[] =>
  Array.from({ length: count }, (_, index) => ({ name: `mac-${index}`, startsAtMs: startsAtMs(index) }));
/** The time at the rate at which a host serves peers, which is less than the uplink's. */
const leastSeconds = fleet.contentBytes / MAX_RATE;

function simulate(more: Partial<typeof fleet> & { readonly hosts: readonly SimulatedHost[] }) {
  const { totalMs = Number.NaN, originBytes, mostGivenPerSecond } = simulateFleet({ ...fleet, ...more });
  expect(mostGivenPerSecond).toBeLessThanOrEqual(MAX_RATE * 1.02);
  return { seconds: totalMs / 1_000, copies: originBytes / fleet.contentBytes };
}

test("hosts that start within two seconds download one copy from the origin, in little more time than one host", () => {
  const { seconds, copies } = simulate({ hosts: hosts(50, (index) => (index * 797) % 2_000) });
  expect(copies).toBeLessThanOrEqual(1.1);
  expect(seconds).toBeLessThan(leastSeconds * 1.25);
});

test("a slow uplink delays the fleet only once", () => {
  const uplink = GIGABIT / 2;
  const { seconds, copies } = simulate({ uplink, hosts: hosts(50, (index) => (index * 797) % 2_000) });
  expect(copies).toBeLessThanOrEqual(1.1);
  expect(seconds).toBeLessThan((fleet.contentBytes / uplink) * 1.1);
});

test("a host that has the content already avoids downloads from the origin", () => {
  const others = hosts(50, (index) => index * 20);
  const { copies } = simulate({
    hosts: [{ name: "holder", startsAtMs: -60_000, isHolder: true }, ...others],
  });
  expect(copies).toBe(0);
});

test("a failure of the host that uses the origin, or of others in the chain, costs no second copy", () => {
  const started = hosts(50, (index) => index * 20);
  const dying = started.map((host, index) =>
    index % 10 === 0 ? { ...host, diesAtMs: 150_000 + index } : host,
  );
  const { copies, seconds } = simulate({ hosts: dying });
  expect(copies).toBeLessThanOrEqual(1.1);
  expect(seconds).toBeLessThan(leastSeconds * 1.6);
});

test("hosts that join later download no bytes from the origin", () => {
  const { copies, seconds } = simulate({ hosts: hosts(50, (index) => (index < 25 ? index * 20 : 200_000)) });
  expect(copies).toBeLessThanOrEqual(1.1);
  expect(seconds).toBeLessThan(200 + leastSeconds * 1.25);
});
