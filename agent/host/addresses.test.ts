import { networkInterfaces } from "node:os";
import { expect, test } from "vitest";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { watchAddressesUp } from "./addresses.ts";

test("addresses are read once for all who ask between two looks, and anew at each look", () => {
  const clock = createSteppedClock();
  const up = watchAddressesUp(clock);
  const first = up.now();
  const all = Object.values(networkInterfaces()).flatMap((found) => found ?? []);
  expect([...first]).toEqual([...new Set(all.map(({ address }) => address))]);
  clock.advance(1_100);
  expect(up.now()).toBe(first);
  up.look();
  const second = up.now();
  expect(second).not.toBe(first);
  clock.advance(1_600);
  expect(up.now()).not.toBe(second);
});
