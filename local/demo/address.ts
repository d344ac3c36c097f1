/** Chooses the address of the demo's engine: an EndpointSlice allows no loopback or link-local address. */
import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { MetalbridgeError } from "../../src/api/errors.ts";

/** Returns the requested address if this machine has it; else the first IPv4 address of a running interface, else IPv6. */
export function machineAddress(interfaces = networkInterfaces(), requested?: string): string {
  const candidates = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .filter((entry) => !entry.internal && !isLinkLocal(entry.address));
  if (requested !== undefined)
    return requireOwn(
      requested,
      candidates.map(({ address }) => address),
    );
  const chosen = candidates.find((entry) => entry.family === "IPv4") ?? candidates[0];
  if (chosen === undefined) {
    throw new MetalbridgeError(
      "NoUsableAddress",
      "this machine has only loopback and link-local addresses, which an EndpointSlice does not allow",
      { summary: "connect a network, or pass an address of this machine with --address" },
    );
  }
  return chosen.address;
}

function requireOwn(requested: string, own: readonly string[]): string {
  if (own.includes(requested)) return requested;
  const problem = isIP(requested) === 0 ? "is not an IP address" : "is not a usable address of this machine";
  const summary =
    own.length === 0 ? "connect a network" : `choose one of ${own.join(", ")}, or omit --address`;
  throw new MetalbridgeError("NoUsableAddress", `${requested} ${problem}`, { summary });
}

function isLinkLocal(address: string): boolean {
  return address.startsWith("169.254.") || address.toLowerCase().startsWith("fe80:");
}
