/** The address the demo's engine is registered under: an EndpointSlice may hold neither loopback nor link-local ones. */
import { networkInterfaces } from "node:os";
import { MetalbridgeError } from "../../src/errors.ts";

/** The first IPv4 address of a running interface, else IPv6. */
export function machineAddress(interfaces = networkInterfaces()): string {
  const candidates = Object.values(interfaces)
    .flatMap((addresses) => addresses ?? [])
    .filter((entry) => !entry.internal && !isLinkLocal(entry.address));
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

function isLinkLocal(address: string): boolean {
  return address.startsWith("169.254.") || address.toLowerCase().startsWith("fe80:");
}
