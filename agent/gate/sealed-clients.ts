/**
 * Clients of a sealed route: only those with a listed certificate have a request read. A connection that has not proved to be one
 * of them takes no place of theirs.
 */
import { readFileSync } from "node:fs";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { fingerprintOf } from "../../src/kube/remote/fingerprint.ts";

/**
 * Maximum number of connections during their handshake; the next one closes the oldest of the address with the most of them.
 * Above the queue of a listening socket, so that all connections that a gateway opens at once fit.
 */
export const MAX_UNPROVED = 512;

export class SealedClients {
  readonly #proved = new Map<Duplex, string>();
  /** By remote address and port, because TLS wraps the socket in another object; the oldest first. */
  readonly #unproved = new Map<string, Map<number, Socket>>();
  readonly #maxUnproved: number;
  #listed: ReadonlySet<string> = new Set();
  #unprovedCount = 0;

  constructor(maxUnproved = MAX_UNPROVED) {
    this.#maxUnproved = maxUnproved;
  }

  /** True if no client may connect. */
  get isEmpty(): boolean {
    return this.#listed.size === 0;
  }

  /** Closes the connections of all clients that are not in the new list, with their requests. */
  list(fingerprints: readonly string[]): void {
    this.#listed = new Set(fingerprints);
    for (const [socket, fingerprint] of this.#proved) if (!this.#listed.has(fingerprint)) socket.destroy();
  }

  /** True if the connection is of a listed client. */
  has(socket: Duplex): boolean {
    return this.#proved.has(socket);
  }

  /** Called for a new connection, before its first read. */
  arrive(socket: Socket): void {
    const { remoteAddress: address = "", remotePort: port = 0 } = socket;
    // The last connection from the same port is gone, although it may not have emitted `close` yet.
    this.#forget(address, port);
    const ofAddress = this.#unproved.get(address) ?? new Map<number, Socket>();
    this.#unproved.set(address, ofAddress.set(port, socket));
    this.#unprovedCount += 1;
    socket.once("close", () => this.#forget(address, port, socket));
    if (this.#unprovedCount > this.#maxUnproved) this.#closeOldest();
  }

  /** Called after the handshake, which proves the key of the certificate. False: the client is unknown, and gets no answer. */
  prove(socket: TLSSocket): boolean {
    this.#forget(socket.remoteAddress ?? "", socket.remotePort ?? 0);
    const fingerprint = fingerprintOf(socket);
    if (fingerprint === undefined || !this.#listed.has(fingerprint)) return false;
    this.#proved.set(socket, fingerprint);
    socket.once("close", () => this.#proved.delete(socket));
    return true;
  }

  #forget(address: string, port: number, socket?: Socket): void {
    const ofAddress = this.#unproved.get(address);
    const known = ofAddress?.get(port);
    if (ofAddress === undefined || known === undefined || (socket !== undefined && socket !== known)) return;
    ofAddress.delete(port);
    this.#unprovedCount -= 1;
    if (ofAddress.size === 0) this.#unproved.delete(address);
  }

  #closeOldest(): void {
    const [most] = [...this.#unproved].sort(([, a], [, b]) => b.size - a.size);
    if (most === undefined) return;
    const [address, ofAddress] = most;
    for (const [port, socket] of ofAddress) {
      this.#forget(address, port);
      return void socket.destroy();
    }
  }
}

/** One fingerprint per line. An empty file is valid: no client may connect. */
export function readFingerprints(file: string): readonly string[] {
  const lines = readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line !== "");
  if (!lines.every((line) => /^[0-9a-f]{64}$/.test(line)))
    throw new Error(`${file} has a line that is no fingerprint`);
  return lines;
}
