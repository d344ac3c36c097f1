/** The address this host serves on: configured or that of the route to the API server, allowed by the Host, and up. */
import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { networkInterfaces } from "node:os";
import type { Clock } from "../../src/ports.ts";
import { isAddressWithin, unusableBecause } from "../config/address.ts";
import { canonicalAddress } from "./canonical-address.ts";

export interface AddressQuestion {
  /** In order of preference; empty means: the route's. */
  readonly configured: readonly string[];
  /** `Host.spec.addresses`; undefined while the Host is not known, which forbids nothing yet. */
  readonly allowed: readonly string[] | undefined;
  readonly routed: string | undefined;
}

export type AddressAnswer =
  | { readonly at: "up"; readonly address: string }
  | { readonly at: "none"; readonly code: "AddressUnknown" | "AddressNotRegistered"; readonly why: string };

/** Decides from what is up, in the system's spelling, which is that of the answer too: engines are bound to it. */
export function chooseAddress(question: AddressQuestion, up: ReadonlySet<string>): AddressAnswer {
  const candidates =
    question.configured.length > 0
      ? question.configured
      : question.routed === undefined
        ? []
        : [question.routed];
  if (candidates.length === 0) {
    return {
      at: "none",
      code: "AddressUnknown",
      why: "no address is configured and none leads to the API server",
    };
  }
  const permitted = candidates.filter(
    (address) => question.allowed === undefined || isAddressWithin(address, question.allowed),
  );
  if (permitted.length === 0) {
    const why = `${candidates.join(", ")} is not among spec.addresses of the Host (${question.allowed?.join(", ") || "there is none"})`;
    return { at: "none", code: "AddressNotRegistered", why };
  }
  const address = permitted.map(canonicalAddress).find((candidate) => up.has(candidate));
  if (address === undefined)
    return { at: "none", code: "AddressUnknown", why: `${permitted.join(", ")} is not up on this machine` };
  return { at: "up", address };
}

/** A little more than the time between two looks: what everybody asks for is then read once for all. */
const FRESH_MS = 1_500;

export interface AddressesUp {
  readonly now: () => ReadonlySet<string>;
  /** Reads anew: whoever looks for changes must not be told what was read half a second before. */
  readonly look: () => void;
}

/** Every address that an interface of this machine has. Each look costs dozens of system calls, and every pass asks. */
export function watchAddressesUp(clock: Clock): AddressesUp {
  let up: ReadonlySet<string> = new Set();
  let lookedAtMs = Number.NEGATIVE_INFINITY;
  const look = (): void => {
    const interfaces = Object.values(networkInterfaces());
    up = new Set(interfaces.flatMap((found) => (found ?? []).map(({ address }) => address)));
    lookedAtMs = clock.monotonicMs();
  };
  return {
    look,
    now: () => {
      if (clock.monotonicMs() - lookedAtMs >= FRESH_MS) look();
      return up;
    },
  };
}

/** For documentation, so that nobody has them: only a default route leads there. */
const ELSEWHERE = ["192.0.2.1", "2001:db8::1"];

/**
 * The local address of the route to a server, or of the default route where the server is this machine. Undefined where
 * the server cannot be asked about: the default route of a host with several networks may be another one.
 */
export async function routedAddress(server: string): Promise<string | undefined> {
  const host = new URL(server).hostname.replace(/^\[|\]$/g, "");
  const address = await firstLocalAddress(await addressesOf(host));
  if (address === undefined || unusableBecause(address) === undefined) return address;
  const other = await firstLocalAddress(ELSEWHERE);
  return other === undefined || unusableBecause(other) !== undefined ? undefined : other;
}

/** IPv4 first, so that a host keeps its family whatever order the answers come in; empty where the lookup fails. */
async function addressesOf(host: string): Promise<readonly string[]> {
  const found = await lookup(host, { all: true, order: "ipv4first" }).catch(() => []);
  return found.map(({ address }) => address);
}

/** To the first target that a route leads to. */
async function firstLocalAddress(targets: readonly string[]): Promise<string | undefined> {
  for (const target of targets) {
    const address = await localAddressTo(target);
    if (address !== undefined) return address;
  }
  return undefined;
}

/** Connecting a datagram socket sends nothing; it only asks the routing table. */
function localAddressTo(target: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(target.includes(":") ? "udp6" : "udp4");
    const finish = (address: string | undefined): void => {
      socket.close();
      resolve(address);
    };
    // Not a callback of connect: that is called for a failure too, and the socket then tells 0.0.0.0.
    socket.once("connect", () => finish(socket.address().address));
    socket.once("error", () => finish(undefined));
    socket.connect(443, target);
  });
}
