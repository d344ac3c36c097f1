/** Checks that an EndpointSlice may hold an address: the API server's rule, applied before any engine is started. */
import { isIP } from "node:net";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { isAddressWithin } from "../../src/util/ip-address.ts";

const REFUSED: readonly (readonly [kind: string, network: string])[] = [
  ["loopback", "127.0.0.0/8"],
  ["loopback", "::1"],
  ["link-local", "169.254.0.0/16"],
  ["link-local", "fe80::/10"],
  ["multicast", "224.0.0.0/4"],
  ["multicast", "ff00::/8"],
  ["reserved", "240.0.0.0/4"],
  ["unspecified", "0.0.0.0/8"],
  ["unspecified", "::"],
];

/** The kind of address that an EndpointSlice rejects; undefined for a usable address. */
export function addressProblem(address: string): string | undefined {
  if (isIP(address) === 0) return "not an IP address";
  if (address.includes("%")) return "an address with a zone";
  if (/^::ffff:/i.test(address)) return "an IPv4 address written as IPv6";
  return REFUSED.find(([, network]) => isAddressWithin(address, [network]))?.[0];
}

/** Throws AddressNotUsable. */
export function checkAddress(address: string): string {
  const why = addressProblem(address);
  if (why !== undefined)
    throw new MetalbridgeError("AddressNotUsable", `${JSON.stringify(address)} is ${why}`);
  return address;
}
