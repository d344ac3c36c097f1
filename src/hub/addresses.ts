/** The addresses that downloads may connect to. Checked for every connection after DNS, so that no name or redirect reaches an internal address. */
import { BlockList, isIP } from "node:net";
import { FAKE_IP_NETWORK, FORBIDDEN_NETWORKS, PRIVATE_NETWORKS } from "../models/source/networks.ts";
import { ipv6Groups } from "../util/ip-address.ts";

export interface AddressPolicy {
  readonly allowLoopback: boolean;
  readonly allowPrivate: boolean;
  /** CIDRs that are allowed although they are private. */
  readonly allowedNetworks?: readonly string[] | undefined;
}

const LOOPBACK = listOf(["127.0.0.0/8", "::1/128"]);
const PRIVATE = listOf(PRIVATE_NETWORKS);
const NEVER = listOf(FORBIDDEN_NETWORKS);
const FAKE = listOf([FAKE_IP_NETWORK]);

/** True for a forbidden address, and for text that is not an address. */
export function isForbiddenAddress(
  address: string,
  policy: AddressPolicy = { allowLoopback: false, allowPrivate: false },
): boolean {
  const bare = address.replace(/^\[|\]$/g, "").replace(/%.*$/, "");
  const version = isIP(bare);
  if (version === 0) return true;
  const family = version === 4 ? "ipv4" : "ipv6";
  if (LOOPBACK.check(bare, family)) return !policy.allowLoopback;
  if (NEVER.check(bare, family)) return true;
  const isPrivate = PRIVATE.check(bare, family) && !policy.allowPrivate;
  if (isPrivate && !listOf(policy.allowedNetworks ?? []).check(bare, family)) return true;
  const embedded = version === 6 ? embeddedV4(ipv6Groups(bare)) : undefined;
  return embedded !== undefined && isForbiddenAddress(embedded, policy);
}

/** True for an address that a proxy with fake IP addresses gives to a name. */
export function isFakeAddress(address: string): boolean {
  return isIP(address) === 4 && FAKE.check(address);
}

export function isLoopbackAddress(address: string): boolean {
  const version = isIP(address);
  return version !== 0 && LOOPBACK.check(address, version === 4 ? "ipv4" : "ipv6");
}

/** The IPv4 address in a mapped, compatible, NAT64, 6to4 or ISATAP address. */
function embeddedV4(groups: readonly number[]): string | undefined {
  const [first, second, third, , fifth, sixth, seventh, eighth] = groups;
  if (first === 0x2002) return dotted(second, third);
  const isNat64 = first === 0x64 && second === 0xff9b;
  const isIsatap = (fifth === 0 || fifth === 0x200) && sixth === 0x5efe;
  const isMapped = groups.slice(0, 5).every((group) => group === 0) && (sixth === 0 || sixth === 0xffff);
  return isNat64 || isIsatap || isMapped ? dotted(seventh, eighth) : undefined;
}

function dotted(high = 0, low = 0): string {
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join(".");
}

function listOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [network = "", bits] = range.split("/");
    list.addSubnet(network, Number(bits), isIP(network) === 4 ? "ipv4" : "ipv6");
  }
  return list;
}
