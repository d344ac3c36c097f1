import { expect, test } from "vitest";
import { isForbiddenAddress } from "./addresses.ts";
import type { SourceFailure } from "./failure.ts";
import { guardedLookup } from "./guard.ts";

test.each([
  "169.254.169.254",
  "fe80::1%eth0",
  "::ffff:169.254.169.254",
  "64:ff9b::a9fe:a9fe",
  "0.0.0.0",
  "::",
  "224.0.0.1",
  "fd00:ec2::254",
  "nonsense",
  "1.2.3",
  "168.63.129.16",
  "2002:a9fe:a9fe::",
  "64:ff9b::a9fe:a9fe",
  "64:ff9b:1::a9fe:a9fe",
  "64:ff9b:1:a9:fea9:fe00::",
  "2001:0:a9fe:a9fe::1",
  "2001:db8::5efe:169.254.169.254",
  "2001:db8::200:5efe:a9fe:a9fe",
  "fd20:ce::254",
  "FE80::1",
  "::169.254.169.254",
])("%s is forbidden under any policy", (address) => {
  expect(isForbiddenAddress(address, { allowLoopback: true, allowPrivate: true })).toBe(true);
});

test("loopback and private addresses follow the policy, and public ones are allowed", () => {
  for (const address of ["127.0.0.1", "::1", "::ffff:127.0.0.1"]) {
    expect(isForbiddenAddress(address)).toBe(true);
    expect(isForbiddenAddress(address, { allowLoopback: true, allowPrivate: false })).toBe(false);
  }
  for (const address of [
    "10.1.2.3",
    "172.31.0.1",
    "192.168.1.1",
    "fd12::1",
    "100.64.0.1",
    "::ffff:10.0.0.1",
    "64:ff9b::10.0.0.1",
    "2002:a00:1::1",
    "2001:db8::5efe:10.0.0.1",
  ]) {
    expect(isForbiddenAddress(address)).toBe(true);
    expect(isForbiddenAddress(address, { allowLoopback: false, allowPrivate: true })).toBe(false);
  }
  for (const address of [
    "8.8.8.8",
    "2606:4700::1111",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2001:db8::5efe:8.8.8.8",
  ])
    expect(isForbiddenAddress(address)).toBe(false);
});

test("allowed networks allow private ranges only", () => {
  const policy = {
    allowLoopback: false,
    allowPrivate: false,
    allowedNetworks: ["10.1.0.0/16", "fd12::/32", "0.0.0.0/0"],
  };
  const open = { ...policy, allowedNetworks: policy.allowedNetworks.slice(0, 2) };
  for (const address of ["10.1.2.3", "fd12::1", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3"])
    expect(isForbiddenAddress(address, open)).toBe(false);
  for (const address of ["10.2.0.1", "fd13::1", "192.168.0.1"])
    expect(isForbiddenAddress(address, open)).toBe(true);
  for (const address of ["169.254.169.254", "127.0.0.1"])
    expect(isForbiddenAddress(address, policy)).toBe(true);
});

const FAKE =
  /^hub\.example resolves to an address in 198\.18\.0\.0\/15, as all names do behind a proxy with fake IP/;
const PRIVATE = /^hub\.example is a loopback, private or reserved address that sources may not use$/;

test.each<[what: string, address: string, allowed: string[], says: RegExp | undefined]>([
  ["the first fake IP address", "198.18.0.1", [], FAKE],
  ["the last fake IP address", "198.19.255.254", ["10.0.0.0/8"], FAKE],
  ["a fake IP address that is allowed", "198.18.0.1", ["198.18.0.0/15"], undefined],
  ["the address after them", "198.20.0.1", [], undefined],
  ["a private address", "10.0.0.1", ["198.18.0.0/15"], PRIVATE],
])("a name with %s is refused with its cause, if at all", async (_, address, allowedNetworks, says) => {
  const rules = { allowLoopback: false, allowPrivate: false, allowedNetworks };
  const find = guardedLookup(new URL("https://hub.example/m.gguf"), rules);
  const error = await new Promise<Error | null>((resolve) => find(address, { all: true }, resolve));
  if (says === undefined) return expect(error).toBeNull();
  expect(error?.message).toMatch(says);
  const { code, remedy } = (error as SourceFailure).error;
  expect(code).toBe("SourceNotAllowed");
  if (says === FAKE) expect(remedy.summary).toContain("--allow-networks 198.18.0.0/15 of the controller");
});
