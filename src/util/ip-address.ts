/** Checks and parses IP addresses. */
import { BlockList, isIP } from "node:net";

/** True if the address is in one of the entries, each of which is an address or a CIDR. */
export function isAddressWithin(address: string, entries: readonly string[]): boolean {
  const family = isIP(address) === 6 ? "ipv6" : "ipv4";
  if (isIP(address) !== 0 && entries.includes(address)) return true;
  return entries.some((entry) => {
    const [network = "", prefix] = entry.trim().split("/");
    if (isIP(network) !== isIP(address) || isIP(network) === 0) return false;
    const most = family === "ipv6" ? 128 : 32;
    const bits = prefix ?? String(most);
    if (!/^\d{1,3}$/.test(bits) || Number(bits) > most) return false;
    const list = new BlockList();
    list.addSubnet(network, Number(bits), family);
    return list.check(address, family);
  });
}

/** The eight groups of a valid IPv6 address, without its zone. `URL` converts an embedded IPv4 address to hexadecimal. */
export function ipv6Groups(address: string): number[] {
  const { hostname } = new URL(`http://[${address.replace(/%.*$/, "")}]`);
  const halves = hostname.slice(1, -1).split("::");
  const [left = [], right = []] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const zeros = Array<string>(8 - left.length - right.length).fill("0");
  return [...left, ...zeros, ...right].map((group) => Number.parseInt(group, 16));
}
