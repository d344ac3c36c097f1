import { expect, test } from "vitest";
import { isAddressWithin } from "./ip-address.ts";

test.each<[string, readonly string[], boolean]>([
  ["192.168.1.2", ["10.0.0.1", " 192.168.0.0/16"], true],
  ["192.168.1.2", ["fd00::/8", "192.168.1.3"], false],
  ["fd00::2", ["fd00::/8"], true],
  ["192.168.1.2", ["", "junk", "192.168.1.0/99"], false],
  ["192.168.1.2", ["10.0.0.0/", "10.0.0.0/ ", "10.0.0.0/0x0", "10.0.0.0/-1"], false],
])("whether %s is within %j", (address, entries, expected) => {
  expect(isAddressWithin(address, entries)).toBe(expected);
});
