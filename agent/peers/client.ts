/** Downloads chunks from one peer, over connections whose other end has proved to be that peer. */
import { Agent, type IncomingMessage, request } from "node:http";
import { type Duplex, finished } from "node:stream";
import { connectPinned } from "../../src/kube/remote/pinned-connection.ts";
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";
import { freeBuffer, freeSocketBuffers } from "../store/download/response-writer.ts";
import type { PeerHost } from "./directory.ts";
import type { PeerIdentity } from "./identity.ts";
import { HEADER_ADDRESS, HEADER_AVAILABLE, HEADER_PREFIX } from "./peer-server.ts";

/** `later`: the peer is still downloading the content, and has this many bytes. */
export type PeerResponse =
  | { readonly at: "chunk"; readonly bytes: number; readonly prefix: string }
  | { readonly at: "later"; readonly availableBytes: number };

/** The requested content. */
export interface PeerContent {
  readonly sha256: string;
  /** The size that the origin reports: that of a peer is not trusted. */
  readonly totalBytes: number;
  /** Digest of the address at the origin. */
  readonly address: string;
}

export interface PeerClient {
  readonly name: string;
  /** Fills `into`, which has room for a chunk. Throws if the peer cannot be used; the error is for the log only. */
  readonly chunk: (
    content: PeerContent,
    chunk: number,
    into: Buffer,
    signal: AbortSignal,
  ) => Promise<PeerResponse>;
  readonly close: () => void;
}

/** An answer that no honest peer sends. */
export class PeerProtocolError extends Error {}

export interface PeerClientOptions {
  readonly identity: PeerIdentity;
  readonly peer: PeerHost;
  readonly connectMs: number;
  /** A request without a byte for this long is aborted. Longer than a peer delays requests. */
  readonly stallMs: number;
}

export function createPeerClient(options: PeerClientOptions): PeerClient {
  const agent = new PeerAgent(options);
  return {
    name: options.peer.name,
    chunk: async ({ sha256, totalBytes, address }, chunk, into, signal) => {
      const start = chunk * CHUNK_BYTES;
      const range = `bytes=${start}-${start + CHUNK_BYTES - 1}`;
      const headers = { range, [HEADER_ADDRESS]: address };
      const response = await send(agent, `/sha256/${sha256}`, { headers, signal, stallMs: options.stallMs });
      if (response.statusCode !== 206) {
        // The body of a rejection is not read.
        if (response.headers["content-length"] === "0") response.resume();
        else response.destroy();
        const availableBytes = Number(response.headers[HEADER_AVAILABLE]);
        if (response.statusCode === 503 && Number.isSafeInteger(availableBytes))
          return { at: "later", availableBytes };
        throw new Error(`the peer answered ${response.statusCode}`);
      }
      const bytes = lengthOf(response, start, totalBytes);
      const prefix = String(response.headers[HEADER_PREFIX]);
      await fill(response, into, bytes);
      return { at: "chunk", bytes, prefix };
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
    const { address: host, port, fingerprint } = peer;
    const server = { host, port, fingerprints: [fingerprint] };
    connectPinned(server, { ...identity, timeoutMs: connectMs }, (error, socket) => {
      if (error === null) freeSocketBuffers(socket);
      done?.(error, socket);
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
    const call = request({ agent, path, headers, signal, host: "peer", timeout: stallMs });
    call.once("error", reject);
    let stalled: { destroy: (error: Error) => unknown } = call;
    call.once("timeout", () => stalled.destroy(new Error("no byte in time")));
    call.once("response", (response) => {
      stalled = response;
      // The response reports all further errors.
      call.on("error", () => undefined);
      resolve(response);
    });
    call.end();
  });
}

/** Checks the announced range: the peer does not decide how much it sends. */
function lengthOf(response: IncomingMessage, start: number, totalBytes: number): number {
  const end = Math.min(start + CHUNK_BYTES, totalBytes);
  if (response.headers["content-range"] === `bytes ${start}-${end - 1}/${totalBytes}`) return end - start;
  response.destroy();
  throw new PeerProtocolError("the peer has a content of another size");
}

/** Frees each piece once it is copied. */
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
      freeBuffer(piece);
    });
  });
}
