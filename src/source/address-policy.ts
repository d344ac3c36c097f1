/** Which addresses a download may connect to: judged after resolution, on every connection, so that a name or redirect cannot reach inside. */

export interface AddressPolicy {
  readonly allowLoopback: boolean;
  readonly allowPrivate: boolean;
}

/** Link-local and metadata addresses are never allowed. */
const NEVER_V4 = [
  "0.0.0.0/8",
  "169.254.0.0/16",
  "100.100.100.200/32",
  "168.63.129.16/32",
  "192.0.0.192/32",
  "224.0.0.0/4",
  "240.0.0.0/4",
];
const PRIVATE_V4 = [
  "10.0.0.0/8",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  "100.64.0.0/10",
  "198.18.0.0/15",
];

/** True for an address that must not be connected to; also for text that is no address. */
export function isForbiddenAddress(
  address: string,
  policy: AddressPolicy = { allowLoopback: false, allowPrivate: false },
): boolean {
  const v4 = parseV4(address);
  if (v4 !== undefined) return isForbiddenV4(v4, policy);
  const groups = parseV6(address);
  return groups === undefined || isForbiddenV6(groups, policy);
}

function isForbiddenV4(value: number, policy: AddressPolicy): boolean {
  if (NEVER_V4.some((range) => isInside(value, range))) return true;
  if (isInside(value, "127.0.0.0/8")) return !policy.allowLoopback;
  return PRIVATE_V4.some((range) => isInside(value, range)) && !policy.allowPrivate;
}

function isForbiddenV6(groups: readonly number[], policy: AddressPolicy): boolean {
  const carried = embeddedV4(groups);
  if (carried === 0) return true;
  if (carried === 1 && groups[5] === 0) return !policy.allowLoopback;
  if (carried !== undefined) return isForbiddenV4(carried, policy);
  const [first = 0, second = 0] = groups;
  const isMetadata = first === 0xfd00 && second === 0xec2;
  if (isMetadata || (first & 0xffc0) === 0xfe80 || (first & 0xff00) === 0xff00) return true;
  const isPrivate = (first & 0xfe00) === 0xfc00 || (first & 0xffc0) === 0xfec0;
  return isPrivate && !policy.allowPrivate;
}

/** The IPv4 address that a mapped, compatible, NAT64 or 6to4 address leads to. */
function embeddedV4(groups: readonly number[]): number | undefined {
  const [first = 0, second = 0, third = 0] = groups;
  if (first === 0x2002) return second * 0x10000 + third;
  const last = (groups[6] ?? 0) * 0x10000 + (groups[7] ?? 0);
  if (first === 0x64 && second === 0xff9b) return last;
  const isCarrier = groups.slice(0, 5).every((group) => group === 0);
  return isCarrier && (groups[5] === 0 || groups[5] === 0xffff) ? last : undefined;
}

function isInside(value: number, range: string): boolean {
  const [network = "", bits = "32"] = range.split("/");
  const size = 2 ** (32 - Number(bits));
  return Math.floor(value / size) === Math.floor((parseV4(network) ?? -1) / size);
}

function parseV4(text: string): number | undefined {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9]\d{0,2})$/.test(part) && Number(part) <= 255))
    return undefined;
  return parts.reduce((value, part) => value * 256 + Number(part), 0);
}

function parseV6(text: string): number[] | undefined {
  const bare = text.replace(/^\[|\]$/g, "").replace(/%.*$/, "");
  if (!bare.includes(":")) return undefined;
  const halves = withoutDots(bare)?.split("::");
  if (halves === undefined || halves.length > 2) return undefined;
  const [left, right] = halves.map((half) => (half === "" ? [] : half.split(":")));
  if (left === undefined) return undefined;
  const missing = 8 - left.length - (right?.length ?? 0);
  if (right === undefined ? missing !== 0 : missing < 1) return undefined;
  const groups = [...left, ...(right === undefined ? [] : [...Array<string>(missing).fill("0"), ...right])];
  return groups.every((group) => /^[0-9a-f]{1,4}$/i.test(group))
    ? groups.map((group) => Number.parseInt(group, 16))
    : undefined;
}

/** `::ffff:10.0.0.1` with its last part in hex. */
function withoutDots(text: string): string | undefined {
  if (!text.includes(".")) return text;
  const colon = text.lastIndexOf(":");
  const v4 = parseV4(text.slice(colon + 1));
  return v4 === undefined
    ? undefined
    : `${text.slice(0, colon)}:${(v4 >>> 16).toString(16)}:${(v4 & 0xffff).toString(16)}`;
}
