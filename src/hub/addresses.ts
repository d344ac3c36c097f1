/** Which addresses a download may connect to. Applied to every connection after DNS, so that neither a name nor a redirect reaches inside. */
import { BlockList, isIP } from "node:net";

export interface AddressPolicy {
  readonly allowLoopback: boolean;
  readonly allowPrivate: boolean;
  /** CIDRs that are allowed although they are private. */
  readonly allowedNetworks?: readonly string[] | undefined;
}

const LOOPBACK = listOf(["127.0.0.0/8", "::1/128"]);
const PRIVATE = listOf([
  "10.0.0.0/8",
  "100.64.0.0/10",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "fc00::/7",
  "fec0::/10",
]);
/** Unspecified, link-local, multicast and metadata addresses, and tunnels that may lead to any of them. */
const NEVER = listOf([
  "0.0.0.0/8",
  "100.100.100.200/32",
  "168.63.129.16/32",
  "169.254.0.0/16",
  "192.0.0.192/32",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "::/128",
  "64:ff9b:1::/48",
  "2001::/32",
  "fd00:ec2::254/128",
  "fd20:ce::254/128",
  "fe80::/10",
  "ff00::/8",
]);

/** True for an address that must not be connected to, and for text that is no address. */
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
  const carried = version === 6 ? carriedV4(groupsOf(bare)) : undefined;
  return carried !== undefined && isForbiddenAddress(carried, policy);
}

/** The IPv4 address that a mapped, compatible, NAT64, 6to4 or ISATAP address leads to. */
function carriedV4(groups: readonly number[]): string | undefined {
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

/** The eight groups of a valid IPv6 address; a URL brings it into hexadecimal. */
function groupsOf(address: string): number[] {
  const { hostname } = new URL(`http://[${address}]`);
  const halves = hostname.slice(1, -1).split("::");
  const [left = [], right = []] = halves.map((half) => (half === "" ? [] : half.split(":")));
  const zeros = Array<string>(8 - left.length - right.length).fill("0");
  return [...left, ...zeros, ...right].map((group) => Number.parseInt(group, 16));
}

function listOf(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [network = "", bits] = range.split("/");
    list.addSubnet(network, Number(bits), isIP(network) === 4 ? "ipv4" : "ipv6");
  }
  return list;
}
