/** Replaces everything that identifies a machine or its user. The same original always gets the same replacement. */
import { isIPv4, isIPv6 } from "node:net";

export interface Redaction {
  readonly redact: (text: string) => string;
  /** Replacements by original. */
  readonly replaced: ReadonlyMap<string, string>;
}

/** Names and serial numbers of this machine and its users. Public names such as service accounts are not replaced. */
export interface Names {
  readonly hosts: readonly string[];
  readonly users: readonly string[];
  readonly serials: readonly string[];
}

const PUBLIC =
  /^(?:root|daemon|metalbridge|_.*|localhost|Shared|Guest|user-\d+|mac-\d+|admin|user|apple|mac|macos|macbook|imac|mini|pro|air|studio|node|vm|\s*)$/i;
const UUID = /\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi;
const MAC = /(?<![0-9a-f:])[0-9a-f]{1,2}(?::[0-9a-f]{1,2}){5}(?![0-9a-f:])/gi;
const IPV4 = /(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])/g;
const IPV6 = /(?<![0-9a-z:])[0-9a-f:]*:[0-9a-f:]+(?![0-9a-z:])/gi;
const HOME = /(?<=\/Users\/)[^/\s"']+/g;
/** The id of a battery. */
const BATTERY = /\(id=\d+\)/g;
const BATTERY_ID = "(id=1234567)";
/** A secret among the arguments or in the environment of a process. */
const SECRET = /(?<=[-_a-z]*(?:key|token|secret|password)[-_a-z]*(?:[= ]| =>? ))(?![-=])\S+/gi;

export function createRedaction(names: Names): Redaction {
  const replaced = new Map<string, string>();
  const counts = new Map<string, number>();
  const next = (kind: string): number => {
    const count = (counts.get(kind) ?? 0) + 1;
    counts.set(kind, count);
    return count;
  };
  const replace = (original: string, make: () => string): string => {
    const known = replaced.get(original) ?? make();
    if (known !== original) replaced.set(original, known);
    return known;
  };
  const networks = new Map<string, string>();
  const replaceName = (kind: string, name: string): string => replace(name, () => `${kind}-${next(kind)}`);
  const known = [
    ...names.hosts.map((name) => ["mac", name] as const),
    ...names.users.map((name) => ["user", name] as const),
    ...names.serials.map((name) => ["serial", name] as const),
  ]
    .filter(([, name]) => !PUBLIC.test(name))
    // A machine is often named after its user.
    .sort(([, one], [, other]) => other.length - one.length);
  const redact = (text: string): string => {
    for (const [user] of text.matchAll(HOME))
      if (!PUBLIC.test(user) && !known.some(([, name]) => name === user)) known.push(["user", user]);
    let result = text;
    for (const [kind, name] of known) result = result.replace(wholeWord(name), () => replaceName(kind, name));
    return result
      .replace(SECRET, "removed")
      .replace(BATTERY, BATTERY_ID)
      .replace(UUID, (uuid) => (isOurUuid(uuid) ? uuid : replace(uuid, () => uuidOf(next("uuid")))))
      .replace(MAC, (mac) => redactMac(mac, replace, next))
      .replace(IPV4, (address) => redactIpv4(address, replace, next, networks))
      .replace(IPV6, (address) => redactIpv6(address, replace, next));
  };
  return { redact, replaced };
}

/** Originals that are still in a text. */
export function leftovers(text: string, { replaced }: Redaction): readonly string[] {
  return [...replaced.keys()].filter((original) => wholeWord(original).test(text));
}

type Replace = (original: string, make: () => string) => string;
type Next = (kind: string) => number;

function wholeWord(name: string): RegExp {
  const escaped = name.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
  return new RegExp(`(?<![A-Za-z0-9_])${escaped}(?![A-Za-z0-9_])`, "gi");
}

const uuidOf = (count: number): string => `00000000-0000-4000-8000-${String(count).padStart(12, "0")}`;
const isOurUuid = (uuid: string): boolean => uuid.startsWith("00000000-0000-4000-8000-");

/** `arp` omits leading zeros and `ifconfig` does not, so both forms get the same replacement. Groups and broadcast are kept. */
function redactMac(mac: string, replace: Replace, next: Next): string {
  const full = mac
    .toLowerCase()
    .split(":")
    .map((part) => part.padStart(2, "0"))
    .join(":");
  if (/^(?:ff:ff:|01:00:5e|33:33:|02:00:00:00:)/.test(full)) return mac;
  const redacted = replace(full, () => {
    const count = next("mac address");
    return `02:00:00:00:${hex(count >> 8)}:${hex(count & 0xff)}`;
  });
  if (mac === full) return redacted;
  return replace(mac, () => redacted.replace(/\b0(?=[0-9a-f])/g, ""));
}

const hex = (byte: number): string => byte.toString(16).padStart(2, "0");

/** Addresses of the same /24 stay in the same network. Loopback, masks, groups and the ends of a network are kept. */
function redactIpv4(address: string, replace: Replace, next: Next, networks: Map<string, string>): string {
  if (
    !isIPv4(address) ||
    /^(?:127|0|255|22[4-9]|23\d)\.|^198\.18\.|^169\.254\.(?:0\.|255\.255$)/.test(address)
  )
    return address;
  return replace(address, () => {
    const [, prefix = "", last = ""] = /^(.*)\.(\d+)$/.exec(address) ?? [];
    const isLinkLocal = prefix.startsWith("169.254.");
    const network = networks.get(prefix) ?? (isLinkLocal ? "169.254.0" : `198.18.${next("network")}`);
    networks.set(prefix, network);
    return `${network}.${last === "255" || last === "0" ? last : next(network)}`;
  });
}

function redactIpv6(address: string, replace: Replace, next: Next): string {
  if (!isIPv6(address) || /^(?:::1?|fe80::1|ff[0-9a-f]{2}:.*|2001:db8::.*)$/i.test(address)) return address;
  const prefix = /^fe80:/i.test(address) ? "fe80::ffff:" : "2001:db8::";
  if (address.startsWith("fe80::ffff:")) return address;
  return replace(address, () => `${prefix}${next("ipv6").toString(16)}`);
}
