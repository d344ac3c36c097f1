/** Chooses the address that this host serves on: that of its engines if allowed, else a configured one, the route's, or the only one. */
import { isIPv6, SocketAddress } from "node:net";
import { networkInterfaces } from "node:os";
import { isAddressWithin } from "../../src/util/ip-address.ts";
import type { Clock } from "../../src/util/ports.ts";
import { addressProblem } from "./address.ts";

export interface AddressInputs {
  /** In order of preference; empty: any address that the Host allows. */
  readonly configured: readonly string[];
  /** `Host.spec.addresses`; undefined while the Host is unknown, when every address is allowed. */
  readonly allowed: readonly string[] | undefined;
  /** The local address of the route to the API server; undefined if unknown. */
  readonly routed: string | undefined;
  /** The listen addresses of this host's engines, once for each engine. */
  readonly inUse: readonly string[];
}

export type AddressAnswer =
  | { readonly at: "up"; readonly address: string }
  | { readonly at: "none"; readonly code: "AddressUnknown"; readonly why: string }
  | {
      readonly at: "none";
      readonly code: "AddressNotRegistered";
      readonly why: string;
      /** The address that this machine would serve on if the Host allowed it. */
      readonly register: string;
    };

export function addressOf(answer: AddressAnswer): string | undefined {
  return answer.at === "up" ? answer.address : undefined;
}

/**
 * Chooses among the addresses that are up. The answer is in the system's spelling, because engines bind to it. A running
 * engine cannot change its address, so the address in use comes first, even if a VPN or a cable has added another route.
 */
export function chooseAddress(inputs: AddressInputs, up: ReadonlySet<string>): AddressAnswer {
  const { configured, allowed } = inputs;
  const isAllowed = (address: string): boolean => allowed === undefined || isAddressWithin(address, allowed);
  const address = candidatesOf(inputs, up)
    .map(canonicalAddress)
    .find((candidate) => up.has(candidate) && isAllowed(candidate));
  if (address !== undefined) return { at: "up", address };
  return configured.length > 0 ? explainConfigured(inputs, up, isAllowed) : explainDetected(inputs, up);
}

function candidatesOf(
  { configured, allowed, routed, inUse }: AddressInputs,
  up: ReadonlySet<string>,
): readonly string[] {
  const engines = mostEnginesFirst(inUse, routed);
  if (configured.length > 0) {
    const own = new Set(configured.map(canonicalAddress));
    return [...engines.filter((address) => own.has(canonicalAddress(address))), ...configured];
  }
  return [...engines, ...(routed === undefined ? [] : [routed]), ...withoutChoice(allowed ?? [], up)];
}

/** Several are in use only if an address went down and up while engines moved: the first one makes the fewest engines move again. */
function mostEnginesFirst(inUse: readonly string[], routed: string | undefined): readonly string[] {
  const counts = new Map<string, number>();
  for (const address of inUse) counts.set(address, (counts.get(address) ?? 0) + 1);
  const weight = (address: string): number => (counts.get(address) ?? 0) + (address === routed ? 0.5 : 0);
  return [...counts.keys()].sort((one, other) => weight(other) - weight(one));
}

/** Listed addresses, or the only one up within listed networks: the agent does not guess which of several addresses nodes can reach. */
function withoutChoice(allowed: readonly string[], up: ReadonlySet<string>): readonly string[] {
  const within = allowedUp(allowed, up);
  return [...allowed.map((entry) => entry.trim()), ...(within.length === 1 ? within : [])];
}

function allowedUp(allowed: readonly string[], up: ReadonlySet<string>): readonly string[] {
  return usableOf(up).filter((address) => isAddressWithin(address, allowed));
}

function usableOf(up: ReadonlySet<string>): readonly string[] {
  return [...up].filter((address) => addressProblem(address) === undefined);
}

/** Explains why none of the configured addresses can be used. */
function explainConfigured(
  { configured, allowed }: AddressInputs,
  up: ReadonlySet<string>,
  isAllowed: (address: string) => boolean,
): AddressAnswer {
  const permitted = configured.filter(isAllowed);
  const [first] = permitted.length > 0 ? [] : [...configured.filter((each) => up.has(each)), ...configured];
  if (first === undefined) return unknown(`${permitted.join(", ")} is not up on this machine`);
  const why = `${configured.join(", ")} is not among spec.addresses of the Host (${listed(allowed ?? [])})`;
  return { at: "none", code: "AddressNotRegistered", why, register: first };
}

/** Explains why none of the machine's addresses can be used. */
function explainDetected({ allowed, routed }: AddressInputs, up: ReadonlySet<string>): AddressAnswer {
  const isRouteUp = routed !== undefined && up.has(routed);
  if (allowed === undefined) {
    return unknown(
      routed === undefined
        ? "no address is configured and none leads to the API server"
        : `${routed} is not up on this machine`,
    );
  }
  const several = allowedUp(allowed, up);
  if (several.length > 1) {
    return unknown(
      `${listed(several)} are all allowed by spec.addresses of the Host, and none of them leads to the API server`,
    );
  }
  // Without a route the network may be down, and the remaining address may be that of a container bridge.
  const has = [...new Set([...(isRouteUp ? [routed] : []), ...usableOf(up)])];
  const [register] = isRouteUp || allowed.length === 0 ? has : [];
  if (register === undefined) {
    return unknown(
      `none of spec.addresses of the Host (${listed(allowed)}) is up on this machine, which has ${listed(has)}`,
    );
  }
  const why = `this machine has ${listed(has)} now, which is not among spec.addresses of the Host (${listed(allowed)})`;
  return { at: "none", code: "AddressNotRegistered", why, register };
}

function unknown(why: string): AddressAnswer {
  return { at: "none", code: "AddressUnknown", why };
}

/** Maximum number of listed addresses: a machine with containers can have dozens. */
const LISTED = 8;

function listed(addresses: readonly string[]): string {
  if (addresses.length === 0) return "there is none";
  const more = addresses.length > LISTED ? ", …" : "";
  return addresses.slice(0, LISTED).join(", ") + more;
}

/** A little longer than the interval between two refreshes, so that all callers share one reading. */
const FRESH_MS = 1_500;

export interface AddressesUp {
  readonly now: () => ReadonlySet<string>;
  /** Reads again: a check for changes must not get a reading that is half a second old. */
  readonly refresh: () => void;
}

/** Reads every address of this machine's interfaces. Cached: a reading costs dozens of system calls, and every pass needs it. */
export function watchAddressesUp(clock: Clock): AddressesUp {
  let up: ReadonlySet<string> = new Set();
  let readAtMs = Number.NEGATIVE_INFINITY;
  const refresh = (): void => {
    const interfaces = Object.values(networkInterfaces());
    up = new Set(interfaces.flatMap((found) => (found ?? []).map(({ address }) => address)));
    readAtMs = clock.monotonicMs();
  };
  return {
    refresh,
    now: () => {
      if (clock.monotonicMs() - readAtMs >= FRESH_MS) refresh();
      return up;
    },
  };
}

/** Users may write 2001:DB8::5 for the system's 2001:db8::5. Only plain IPv6 addresses have several spellings. */
function canonicalAddress(address: string): string {
  // SocketAddress would drop a zone.
  if (!isIPv6(address) || address.includes("%")) return address;
  return new SocketAddress({ address, family: "ipv6" }).address;
}
