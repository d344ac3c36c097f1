/** The address by which this machine reaches a server, asked of its routing table. */
import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { unusableBecause } from "../config/address.ts";

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
