/** Whether an IP address is one of those that an operator allows. */
import { BlockList, isIP } from "node:net";

/** True when the address is inside one of the entries, each an address or a CIDR. */
export function isAddressWithin(address: string, entries: readonly string[]): boolean {
  const family = isIP(address) === 6 ? "ipv6" : "ipv4";
  if (isIP(address) !== 0 && entries.includes(address)) return true;
  return entries.some((entry) => {
    const [network = "", prefix] = entry.trim().split("/");
    if (isIP(network) !== isIP(address) || isIP(network) === 0) return false;
    const list = new BlockList();
    const bits = prefix === undefined ? (family === "ipv6" ? 128 : 32) : Number(prefix);
    if (!Number.isInteger(bits) || bits < 0 || bits > (family === "ipv6" ? 128 : 32)) return false;
    list.addSubnet(network, bits, family);
    return list.check(address, family);
  });
}
