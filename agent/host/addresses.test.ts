import { networkInterfaces } from "node:os";
import { expect, test } from "vitest";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { type AddressInputs, chooseAddress, watchAddressesUp } from "./addresses.ts";
import { routedAddress } from "./routed-address.ts";

test("addresses are read once for all callers between two refreshes, and again at each refresh", () => {
  const clock = createSteppedClock();
  const up = watchAddressesUp(clock);
  const first = up.now();
  const all = Object.values(networkInterfaces()).flatMap((found) => found ?? []);
  expect([...first]).toEqual([...new Set(all.map(({ address }) => address))]);
  clock.advance(1_100);
  expect(up.now()).toBe(first);
  up.refresh();
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
    chooseAddress({ configured, allowed, routed, inUse: [] }, up);
  const found = { at: "up", address: "2001:db8::5" };
  for (const spelling of ["2001:DB8::5", "2001:0db8:0:0:0:0:0:5", "2001:db8::5"]) {
    expect(ask([spelling], ["2001:DB8::5"])).toEqual(found);
    expect(ask([spelling], ["2001:DB8:0::/48"])).toEqual(found);
    expect(ask([], [spelling], "2001:db8::5")).toEqual(found);
  }
  expect(ask(["2001:DB8::6"], ["2001:DB8::/32"])).toMatchObject({ at: "none", code: "AddressUnknown" });
  expect(ask(["2001:DB9::5"], ["2001:DB8::/32"])).toMatchObject({ code: "AddressNotRegistered" });
});

const WIFI = "192.168.1.20";
const CABLE = "192.168.1.30";
const VPN = "10.8.0.2";

function choose(upNow: readonly string[], question: Partial<AddressInputs>) {
  const whole: AddressInputs = { configured: [], allowed: [], routed: undefined, inUse: [], ...question };
  const answer = chooseAddress(whole, new Set(["127.0.0.1", "::1", "fe80::1", "169.254.7.7", ...upNow]));
  return answer.at === "up" ? answer.address : answer;
}

test("a VPN that takes the default route, and gives it back, moves nothing that serves on a registered address", () => {
  const allowed = [WIFI];
  expect(choose([WIFI], { allowed, routed: WIFI, inUse: [WIFI] })).toBe(WIFI);
  expect(choose([WIFI, VPN], { allowed, routed: VPN, inUse: [WIFI] })).toBe(WIFI);
  expect(choose([WIFI], { allowed, routed: VPN, inUse: [WIFI] })).toBe(WIFI);
  expect(choose([WIFI, VPN], { allowed: [WIFI, VPN], routed: VPN, inUse: [WIFI] })).toBe(WIFI);
});

test("a host without engines serves on its registered address too while a VPN has the route", () => {
  expect(choose([WIFI, VPN], { allowed: [WIFI], routed: VPN })).toBe(WIFI);
  expect(choose([WIFI, VPN], { allowed: ["192.168.1.0/24"], routed: VPN })).toBe(WIFI);
  expect(choose([WIFI, VPN], { allowed: [WIFI, VPN], routed: VPN })).toBe(VPN);
});

test("a cable beside Wi-Fi moves no engine; the route decides where none runs", () => {
  const allowed = ["192.168.1.0/24"];
  expect(choose([WIFI, CABLE], { allowed, routed: CABLE, inUse: [WIFI, WIFI] })).toBe(WIFI);
  expect(choose([WIFI, CABLE], { allowed, routed: CABLE })).toBe(CABLE);
});

test("an address in use is left when it is gone, or not allowed any more, or another one is configured", () => {
  const allowed = [WIFI, CABLE];
  expect(choose([CABLE], { allowed, routed: CABLE, inUse: [WIFI] })).toBe(CABLE);
  expect(choose([WIFI, CABLE], { allowed: [CABLE], routed: CABLE, inUse: [WIFI] })).toBe(CABLE);
  expect(choose([WIFI, CABLE], { allowed, routed: WIFI, inUse: [WIFI], configured: [CABLE] })).toBe(CABLE);
  expect(choose([WIFI, CABLE], { allowed, inUse: [WIFI], configured: [CABLE, WIFI] })).toBe(WIFI);
  expect(choose([WIFI, CABLE], { allowed, configured: [CABLE, WIFI] })).toBe(CABLE);
});

test("engines on two addresses that are both up: the one of most, then the route's", () => {
  const allowed = [WIFI, CABLE];
  expect(choose([WIFI, CABLE], { allowed, routed: CABLE, inUse: [CABLE, WIFI, WIFI] })).toBe(WIFI);
  expect(choose([WIFI, CABLE], { allowed, routed: CABLE, inUse: [WIFI, CABLE] })).toBe(CABLE);
  expect(choose([WIFI, CABLE], { allowed, routed: undefined, inUse: [WIFI, CABLE] })).toBe(WIFI);
});

test("without a known route, uses the registered address that is up, or the only address in a registered network", () => {
  expect(choose([WIFI, VPN], { allowed: [WIFI] })).toBe(WIFI);
  expect(choose([VPN, WIFI], { allowed: [CABLE, WIFI] })).toBe(WIFI);
  expect(choose([WIFI, VPN], { allowed: ["192.168.1.0/24"] })).toBe(WIFI);
  expect(choose(["2001:db8::5"], { allowed: ["2001:DB8:0::5"] })).toBe("2001:db8::5");
  expect(choose([WIFI, CABLE], { allowed: ["192.168.1.0/24"] })).toMatchObject({
    code: "AddressUnknown",
    why: expect.stringMatching(/192\.168\.1\.20, 192\.168\.1\.30 are all allowed/),
  });
  expect(choose([WIFI], { allowed: undefined })).toMatchObject({ code: "AddressUnknown" });
});

test("a wide network in spec.addresses never allows a loopback or link-local address", () => {
  expect(choose([WIFI], { allowed: ["0.0.0.0/0", "::/0"] })).toBe(WIFI);
});

test("a Host without addresses allows none, and the answer names the address to add", () => {
  expect(choose([WIFI], { allowed: [], routed: WIFI, inUse: [WIFI] })).toMatchObject({
    code: "AddressNotRegistered",
    register: WIFI,
  });
  expect(choose([WIFI], { allowed: [] })).toMatchObject({ code: "AddressNotRegistered", register: WIFI });
});

test("after DHCP the answer names what the machine has now and what the Host allows", () => {
  const answer = choose([CABLE, VPN], { allowed: [WIFI], routed: CABLE, inUse: [WIFI] });
  expect(answer).toEqual({
    at: "none",
    code: "AddressNotRegistered",
    why: `this machine has ${CABLE}, ${VPN} now, which is not among spec.addresses of the Host (${WIFI})`,
    register: CABLE,
  });
});

test("no address is suggested for registration while the network is down", () => {
  expect(choose(["172.17.0.1"], { allowed: [WIFI], routed: WIFI, inUse: [WIFI] })).toMatchObject({
    code: "AddressUnknown",
    why: expect.stringMatching(/\(192\.168\.1\.20\) is up on this machine, which has 172\.17\.0\.1/),
  });
  expect(choose([], { allowed: [WIFI] })).toMatchObject({ code: "AddressUnknown" });
});
