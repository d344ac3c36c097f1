/** Asks one peer for chunks, over connections whose other end has proved to be that peer. */
import { Agent, type IncomingMessage, request } from "node:http";
import { type Duplex, finished } from "node:stream";
import { connect } from "node:tls";
import { CHUNK_BYTES } from "../store/remote/prefix-hash.ts";
import { release, releaseReads } from "../store/remote/sink.ts";
import type { PeerHost } from "./directory.ts";
import { HEADER_AVAILABLE, HEADER_PREFIX } from "./giver.ts";
import { fingerprintOf, type Identity } from "./identity.ts";

/** `later`: the peer is still fetching it, and has come this far. */
export type PeerAnswer =
  | { readonly at: "chunk"; readonly bytes: number; readonly totalBytes: number; readonly prefix: string }
  | { readonly at: "later"; readonly availableBytes: number };

export interface PeerClient {
  readonly name: string;
  /** Fills `into`, which has room for a chunk. Throws for a peer that cannot be used; what it threw is for the log only. */
  readonly chunk: (sha256: string, chunk: number, into: Buffer, signal: AbortSignal) => Promise<PeerAnswer>;
  readonly close: () => void;
}

export interface PeerClientOptions {
  readonly identity: Identity;
  readonly peer: PeerHost;
  readonly connectMs: number;
  /** No byte for this long ends a request. It is longer than a peer lets requests wait. */
  readonly stallMs: number;
}

export function createPeerClient(options: PeerClientOptions): PeerClient {
  const agent = new PeerAgent(options);
  return {
    name: options.peer.name,
    chunk: async (sha256, chunk, into, signal) => {
      const start = chunk * CHUNK_BYTES;
      const headers = { range: `bytes=${start}-${start + CHUNK_BYTES - 1}` };
      const response = await send(agent, `/sha256/${sha256}`, { headers, signal, stallMs: options.stallMs });
      if (response.statusCode !== 206) {
        response.resume();
        const availableBytes = Number(response.headers[HEADER_AVAILABLE]);
        if (response.statusCode === 503 && Number.isSafeInteger(availableBytes))
          return { at: "later", availableBytes };
        throw new Error(`the peer answered ${response.statusCode}`);
      }
      const { totalBytes, bytes } = lengthsOf(response, start);
      const prefix = String(response.headers[HEADER_PREFIX]);
      await fill(response, into, bytes);
      return { at: "chunk", bytes, totalBytes, prefix };
    },
    close: () => agent.destroy(),
  };
}

/** Hands a connection to HTTP only once the peer's certificate is the one that its Host names. */
class PeerAgent extends Agent {
  readonly #options: PeerClientOptions;

  constructor(options: PeerClientOptions) {
    super({ keepAlive: true, maxFreeSockets: 2 });
    this.#options = options;
  }

  override createConnection(_: object, done?: (error: Error | null, socket: Duplex) => void): undefined {
    const { identity, peer, connectMs } = this.#options;
    const { key, cert } = identity;
    const { address: host, port, fingerprint } = peer;
    const socket = connect({ host, port, key, cert, rejectUnauthorized: false, minVersion: "TLSv1.3" });
    const fail = (error: Error): void => {
      socket.destroy();
      done?.(error, socket);
    };
    socket.once("error", fail);
    socket.setTimeout(connectMs, () => fail(new Error("no connection in time")));
    socket.once("secureConnect", () => {
      if (fingerprintOf(socket) !== fingerprint)
        return fail(new Error("another certificate than its Host's"));
      socket.off("error", fail);
      socket.setTimeout(0);
      socket.removeAllListeners("timeout");
      releaseReads(socket);
      done?.(null, socket);
    });
    return undefined;
  }
}

function send(
  agent: Agent,
  path: string,
  { headers, signal, stallMs }: { headers: Record<string, string>; signal: AbortSignal; stallMs: number },
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const asked = request({ agent, path, headers, signal, host: "peer", timeout: stallMs });
    asked.once("error", reject);
    const stall = new Error("no byte in time");
    let stalled: { destroy: (error: Error) => unknown } = asked;
    asked.once("timeout", () => stalled.destroy(stall));
    asked.once("response", (response) => {
      stalled = response;
      // Errors after this are the response's.
      asked.on("error", () => undefined);
      resolve(response);
    });
    asked.end();
  });
}

function lengthsOf(response: IncomingMessage, start: number): { totalBytes: number; bytes: number } {
  const [, from, to, total] =
    /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/.exec(response.headers["content-range"] ?? "") ?? [];
  const bytes = Number(to) + 1 - start;
  const totalBytes = Number(total);
  const isWhole = bytes === Math.min(CHUNK_BYTES, totalBytes - start);
  if (Number(from) === start && bytes > 0 && isWhole) return { totalBytes, bytes };
  response.destroy();
  throw new Error("the peer sent another range");
}

/** Each piece is freed once it is copied. */
function fill(response: IncomingMessage, into: Buffer, bytes: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let filled = 0;
    finished(response, { writable: false }, (error) => {
      if (error) reject(error);
      else if (filled === bytes) resolve();
      else reject(new Error("the peer sent less than it said"));
    });
    response.on("data", (piece: Buffer) => {
      if (filled + piece.length > bytes)
        return void response.destroy(new Error("the peer sent more than it said"));
      filled += piece.copy(into, filled);
      release(piece);
    });
  });
}
