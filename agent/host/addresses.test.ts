import { networkInterfaces } from "node:os";
import { expect, test } from "vitest";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { chooseAddress, routedAddress, watchAddressesUp } from "./addresses.ts";

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

test("a server whose name cannot be looked up says nothing about the address", async () => {
  // Longer than a label may be: it fails on every machine, and without a question to the network.
  expect(await routedAddress(`https://${"a".repeat(64)}.invalid:6443`)).toBeUndefined();
});

test("a server that no route leads to says nothing about the address", async () => {
  expect(await routedAddress("https://255.255.255.255:6443")).toBeUndefined();
});

test("an IPv6 address is up and allowed in whatever spelling it was given, and served in the system's", () => {
  const up = new Set(["2001:db8::5"]);
  const ask = (configured: string[], allowed: string[], routed?: string) =>
    chooseAddress({ configured, allowed, routed }, up);
  const found = { at: "up", address: "2001:db8::5" };
  for (const spelling of ["2001:DB8::5", "2001:0db8:0:0:0:0:0:5", "2001:db8::5"]) {
    expect(ask([spelling], ["2001:DB8::5"])).toEqual(found);
    expect(ask([spelling], ["2001:DB8:0::/48"])).toEqual(found);
    expect(ask([], [spelling], "2001:db8::5")).toEqual(found);
  }
  expect(ask(["2001:DB8::6"], ["2001:DB8::/32"])).toMatchObject({ at: "none", code: "AddressUnknown" });
  expect(ask(["2001:DB9::5"], ["2001:DB8::/32"])).toMatchObject({ code: "AddressNotRegistered" });
});
