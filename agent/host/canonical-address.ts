/** One spelling for each address: people write 2001:DB8::5 for what the system calls 2001:db8::5. Pure. */
import { isIPv6, SocketAddress } from "node:net";

/** As the system spells it; what is no plain IPv6 address has one spelling, and stays as it is. */
export function canonicalAddress(address: string): string {
  // A zone would be lost.
  if (!isIPv6(address) || address.includes("%")) return address;
  return new SocketAddress({ address, family: "ipv6" }).address;
}
