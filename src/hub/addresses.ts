/** Which addresses a download may connect to. Applied to every connection after DNS, so that neither a name nor a redirect reaches inside. */
import { BlockList, isIP } from "node:net";
import { FORBIDDEN_NETWORKS, PRIVATE_NETWORKS } from "../models/source/networks.ts";

export interface AddressPolicy {
  readonly allowLoopback: boolean;
  readonly allowPrivate: boolean;
  /** CIDRs that are allowed although they are private. */
  readonly allowedNetworks?: readonly string[] | undefined;
}

const LOOPBACK = listOf(["127.0.0.0/8", "::1/128"]);
const PRIVATE = listOf(PRIVATE_NETWORKS);
const NEVER = listOf(FORBIDDEN_NETWORKS);

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
