/** Whether an IP address is in a list of addresses and networks. */
import { BlockList, isIP } from "node:net";

/** True when the address is inside one of the entries, each an address or a CIDR. */
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
