/** Which addresses a download may connect to, judged after name resolution. */
import { BlockList, isIP } from "node:net";

export type AddressClass = "public" | "loopback" | "private" | "forbidden";

export interface AddressRules {
  readonly allowLoopback: boolean;
  readonly allowPrivate: boolean;
}

/** Never: link-local (cloud metadata lives there), metadata services elsewhere, unspecified, multicast, reserved. */
const forbidden = blockList([
  "0.0.0.0/8",
  "169.254.0.0/16",
  "168.63.129.16/32",
  "100.100.100.200/32",
  "192.0.0.192/32",
  "224.0.0.0/4",
  "240.0.0.0/4",
  "::/128",
  "fe80::/10",
  "fec0::/10",
  "ff00::/8",
  "fd00:ec2::/32",
  "fd20:ce::/32",
]);
const loopback = blockList(["127.0.0.0/8", "::1/128"]);
const privateUse = blockList([
  "10.0.0.0/8",
  "100.64.0.0/10",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "fc00::/7",
]);

/** Judges one numeric address; an IPv4 address inside an IPv6 one is judged as IPv4. */
export function classifyAddress(address: string): AddressClass {
  const plain = embeddedIpv4(stripZone(address)) ?? stripZone(address);
  const family = isIP(plain) === 6 ? "ipv6" : "ipv4";
  if (isIP(plain) === 0 || forbidden.check(plain, family)) return "forbidden";
  if (loopback.check(plain, family)) return "loopback";
  return privateUse.check(plain, family) ? "private" : "public";
}

/** True when the rules let a download connect there. */
export function isAddressAllowed(address: string, rules: AddressRules): boolean {
  switch (classifyAddress(address)) {
    case "public":
      return true;
    case "loopback":
      return rules.allowLoopback;
    case "private":
      return rules.allowPrivate;
    case "forbidden":
      return false;
  }
}

function stripZone(address: string): string {
  return address.split("%")[0] ?? address;
}

/** Mapped (::ffff:a.b.c.d), NAT64 (64:ff9b::) and 6to4 (2002:) addresses reach the IPv4 address that they carry. */
function embeddedIpv4(address: string): string | undefined {
  if (isIP(address) !== 6) return undefined;
  const groups = expand(address);
  const at = (index: number): number => groups[index] ?? 0;
  const dotted = (high: number, low: number): string =>
    [at(high) >> 8, at(high) & 255, at(low) >> 8, at(low) & 255].join(".");
  const leadingZeros = groups.slice(0, 5).every((group) => group === 0);
  if (leadingZeros && (at(5) === 0xffff || (at(5) === 0 && at(6) !== 0))) return dotted(6, 7);
  if (at(0) === 0x64 && at(1) === 0xff9b) return dotted(6, 7);
  return at(0) === 0x2002 ? dotted(1, 2) : undefined;
}

function expand(address: string): number[] {
  const dotted = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(address);
  const text =
    dotted === null
      ? address
      : `${dotted[1]}${hexPair(dotted[2], dotted[3])}:${hexPair(dotted[4], dotted[5])}`;
  const [head = "", tail] = text.split("::");
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const gap = tail === undefined ? 0 : 8 - left.length - right.length;
  return [...left, ...Array.from({ length: gap }, () => "0"), ...right].map((group) =>
    Number.parseInt(group, 16),
  );
}

function hexPair(high = "0", low = "0"): string {
  return (Number(high) * 256 + Number(low)).toString(16);
}

function blockList(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = "", prefix = "0"] = range.split("/");
    list.addSubnet(address, Number(prefix), isIP(address) === 6 ? "ipv6" : "ipv4");
  }
  return list;
}
