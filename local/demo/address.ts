/** The address the demo's engine is registered under: an EndpointSlice may hold neither loopback nor link-local ones. */
import { isIP } from "node:net";
import { networkInterfaces } from "node:os";
import { MetalbridgeError } from "../../src/api/errors.ts";

/** The one asked for, if this machine has it; else the first IPv4 address of a running interface, else IPv6. */
export function machineAddress(interfaces = networkInterfaces(), asked?: string): string {
  const candidates = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .filter((entry) => !entry.internal && !isLinkLocal(entry.address));
  if (asked !== undefined)
    return expectOwn(
      asked,
      candidates.map(({ address }) => address),
    );
  const chosen = candidates.find((entry) => entry.family === "IPv4") ?? candidates[0];
  if (chosen === undefined) {
    throw new MetalbridgeError(
      "NoUsableAddress",
      "this machine has only loopback and link-local addresses, which an EndpointSlice may not hold",
      { summary: "connect a network, or pass an address of this machine with --address" },
    );
  }
  return chosen.address;
}

function expectOwn(asked: string, own: readonly string[]): string {
  if (own.includes(asked)) return asked;
  const what =
    isIP(asked) === 0 ? "is not an IP address" : "is not an address of this machine that can be used";
  const summary =
    own.length === 0 ? "connect a network" : `choose one of ${own.join(", ")}, or leave --address out`;
  throw new MetalbridgeError("NoUsableAddress", `${asked} ${what}`, { summary });
}

function isLinkLocal(address: string): boolean {
  return address.startsWith("169.254.") || address.toLowerCase().startsWith("fe80:");
}
