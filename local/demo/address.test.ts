import type { NetworkInterfaceInfo } from "node:os";
import { expect, test } from "vitest";
import { machineAddress } from "./address.ts";

const entry = { address: "192.0.2.7", family: "IPv4", internal: false } as NetworkInterfaceInfo;
const interfaces = { en0: [{ ...entry, address: "169.254.1.1" }, entry], lo: [{ ...entry, internal: true }] };

test("the first that an EndpointSlice may hold", () => {
  expect(machineAddress(interfaces)).toBe("192.0.2.7");
  expect(machineAddress(interfaces, "192.0.2.7")).toBe("192.0.2.7");
  expect(() => machineAddress({})).toThrow(/only loopback/);
});

test.for([
  ["1.2.3", /1\.2\.3 is not an IP address/],
  ["10.99.99.99", /10\.99\.99\.99 is not a usable address of this machine/],
  ["127.0.0.1", /127\.0\.0\.1 is not a usable address of this machine/],
] as const)("--address %s is refused before anything starts", ([asked, message]) => {
  expect(() => machineAddress(interfaces, asked)).toThrow(message);
});
