/** Which addresses an EndpointSlice may hold: the API server's own rule, asked before anything is started. */
import { BlockList, isIP } from "node:net";
import { MetalbridgeError } from "../../src/api/errors.ts";

const refused: readonly (readonly [string, string, number])[] = [
  ["loopback", "127.0.0.0", 8],
  ["loopback", "::1", 128],
  ["link-local", "169.254.0.0", 16],
  ["link-local", "fe80::", 10],
  ["multicast", "224.0.0.0", 4],
  ["multicast", "ff00::", 8],
  ["reserved", "240.0.0.0", 4],
  ["unspecified", "0.0.0.0", 8],
  ["unspecified", "::", 128],
];

/** The kind of address that an EndpointSlice refuses, or undefined for a usable one. */
export function addressProblem(address: string): string | undefined {
  const version = isIP(address);
  if (version === 0) return "not an IP address";
  if (address.includes("%")) return "an address with a zone";
  const mapped = /^::ffff:/i.test(address);
  if (mapped) return "an IPv4 address written as IPv6";
  const family = version === 6 ? "ipv6" : "ipv4";
  const hit = refused.find(([, network, prefix]) => {
    if (isIP(network) !== version) return false;
    const list = new BlockList();
    list.addSubnet(network, prefix, family);
    return list.check(address, family);
  });
  return hit?.[0];
}

/** Throws AddressNotUsable. */
export function checkAddress(address: string): string {
  const why = addressProblem(address);
  if (why !== undefined)
    throw new MetalbridgeError("AddressNotUsable", `${JSON.stringify(address)} is ${why}`);
  return address;
}
