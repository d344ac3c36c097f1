import { expect, onTestFinished, test } from "vitest";
import type { Log } from "../../src/util/ports.ts";
import { until } from "../../test/bed/until.ts";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { followAddress } from "./follow-address.ts";
import { createPauseWatch, type Pause } from "./pause.ts";

const quiet: Log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {}, child: () => quiet };

/** The address that is served on is the route's, and what the route says can be set. */
function following(first: string | undefined) {
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const clock = createSteppedClock();
  const farm = { route: first, served: first, changes: 0 };
  followAddress({
    clock,
    log: quiet,
    signal: end.signal,
    readRoute: async () => farm.route,
    onRouted: (address) => {
      farm.served = address;
    },
    address: () => farm.served,
    onChange: () => {
      farm.changes += 1;
    },
  });
  return { clock, farm, end };
}

test("an address that DHCP has changed is followed within seconds", async () => {
  const { clock, farm } = following("192.0.2.10");
  farm.route = "192.0.2.110";
  clock.advance(2_000);
  await until(() => expect(farm).toMatchObject({ served: "192.0.2.110", changes: 1 }));
  clock.advance(2_000);
  farm.route = "192.0.2.10";
  clock.advance(2_000);
  await until(() => expect(farm).toMatchObject({ served: "192.0.2.10", changes: 2 }));
});

test("without any route the address stays what it was", async () => {
  const { clock, farm } = following("192.0.2.10");
  farm.route = undefined;
  clock.advance(2_000);
  await new Promise(setImmediate);
  expect(farm).toMatchObject({ served: "192.0.2.10", changes: 0 });
});

test("a changed route is reported while the address that engines are served on stays", async () => {
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const clock = createSteppedClock();
  const farm = { route: "192.0.2.10" as string | undefined, changes: 0 };
  followAddress({
    clock,
    log: quiet,
    signal: end.signal,
    onRouted: () => {},
    readRoute: async () => farm.route,
    address: () => "192.0.2.10",
    onChange: () => {
      farm.changes += 1;
    },
  });
  const poll = async (route: string | undefined): Promise<number> => {
    farm.route = route;
    clock.advance(1_000);
    // What was due when the clock moved has fired before this does.
    await new Promise<void>((done) => void clock.after(0, done));
    await new Promise(setImmediate);
    return farm.changes;
  };
  expect(await poll("192.0.2.10")).toBe(0);
  expect(await poll("10.8.0.2")).toBe(1);
  expect(await poll(undefined)).toBe(1);
  expect(await poll("10.8.0.2")).toBe(1);
  expect(await poll("192.0.2.10")).toBe(2);
});

test("following the address ends with the signal", async () => {
  const { clock, farm, end } = following("192.0.2.10");
  end.abort();
  farm.route = "192.0.2.110";
  clock.advance(2_000);
  await new Promise(setImmediate);
  expect(farm.changes).toBe(0);
});

/** Answers come when the test says so, as from a DNS server that drops packets. */
function followingSlowly() {
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const clock = createSteppedClock();
  const open: ((route: string | undefined) => void)[] = [];
  const farm = { served: "192.0.2.10" as string | undefined, changes: 0, asked: 0 };
  const pauses: Pause[] = [];
  followAddress({
    clock,
    log: quiet,
    signal: end.signal,
    onPoll: createPauseWatch({ clock, log: quiet, onPause: (pause) => pauses.push(pause) }),
    readRoute: () => {
      farm.asked += 1;
      return new Promise((resolve) => open.push(resolve));
    },
    onRouted: (address) => {
      farm.served = address;
    },
    address: () => farm.served,
    onChange: () => {
      farm.changes += 1;
    },
  });
  /** What was due when the clock moved has fired before this does. */
  const pass = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second += 1) {
      clock.advance(1_000);
      await new Promise<void>((done) => void clock.after(0, done));
    }
  };
  const answer = async (route: string | undefined): Promise<void> => {
    open.shift()?.(route);
    await new Promise(setImmediate);
  };
  return { clock, farm, pauses, pass, answer };
}

test("a slow route reading does not look like a sleep, and no second reading starts meanwhile", async () => {
  const { farm, pauses, pass, answer } = followingSlowly();
  await pass(15);
  expect(farm.asked).toBe(1);
  await answer("192.0.2.10");
  await pass(2);
  expect(farm).toMatchObject({ asked: 2, changes: 0 });
  expect(pauses).toEqual([]);
});

test("a sleep is detected while a route reading is pending", async () => {
  const { clock, pauses, pass } = followingSlowly();
  await pass(2);
  clock.advance(60_000);
  await until(() => expect(pauses).toHaveLength(1));
});

test("a late answer counts, and a lost address is reported without waiting for one", async () => {
  const { farm, pass, answer } = followingSlowly();
  await pass(2);
  farm.served = undefined;
  await pass(1);
  expect(farm.changes).toBe(1);
  await answer("192.0.2.110");
  expect(farm).toMatchObject({ served: "192.0.2.110", changes: 2, asked: 1 });
});
