/** Serves content to other hosts of the cluster: by checksum, in chunks, at a steady rate. */
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import type { Host } from "../../src/api/host.ts";
import { listenOn } from "../../src/http/listener.ts";
import { fingerprintOf } from "../../src/kube/remote/fingerprint.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { ContentLookup, SharedContent } from "../store/content/content-sharing.ts";
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";
import { createDownloadQueue, type DownloadQueue, type RateLimiter } from "../store/download/host-limits.ts";
import { freeBuffer } from "../store/download/response-writer.ts";
import type { Directory } from "./directory.ts";
import { createGrants, type Grants } from "./grants.ts";
import { claimedName, type PeerIdentity } from "./identity.ts";
import { createPeerConnections, type PeerConnections } from "./peer-connections.ts";
import { waitForChange } from "./wait-for-change.ts";

export const HEADER_PREFIX = "metalbridge-prefix-sha256";
export const HEADER_AVAILABLE = "metalbridge-available";
/** Digest of the URL from which the requesting host itself would download the file. */
export const HEADER_ADDRESS = "metalbridge-address-sha256";

export interface PeerServerOptions {
  readonly identity: PeerIdentity;
  readonly address: string;
  /** 0 picks a free port. */
  readonly port: number;
  readonly contents: ContentLookup;
  readonly directory: Directory;
  /** Limits the rate of all content that this host serves. */
  readonly pace: RateLimiter;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the listener and all reads. */
  readonly signal: AbortSignal;
  /** Maximum delay of a request for a chunk that this host is still downloading. */
  readonly waitMs?: number;
  /** Maximum time for the client to read a block; after that the connection is closed. */
  readonly stallMs?: number;
}

interface ServerContext extends PeerServerOptions {
  readonly connections: PeerConnections;
  readonly grants: Grants;
  /** The last response of each connection. */
  readonly responses: WeakMap<Socket, ServerResponse>;
  /** A queue for each host that is receiving chunks. */
  readonly queues: Map<string, DownloadQueue>;
}

const BLOCK_BYTES = 512 << 10;
const WAIT_MS = 10_000;
const STALL_MS = 30_000;
const HANDSHAKE_MS = 5_000;
const CHECK_MS = 1_000;
const MAX_CONNECTIONS = 256;
/** Maximum number of chunks that one host receives at once; its other requests are queued before they take memory or a file. */
const MAX_CHUNKS_PER_HOST = 4;

/** Resolves with the port once it listens; rejects with `PortTaken` or `ListenFailed`. Does not keep the process alive. */
export async function startPeerServer(options: PeerServerOptions): Promise<number> {
  const { identity, directory, clock, log, signal } = options;
  const { key, cert } = identity;
  const connections = createPeerConnections(clock);
  const context: ServerContext = {
    ...options,
    connections,
    grants: createGrants((name) => directory.readAssigned(name), clock),
    responses: new WeakMap(),
    queues: new Map(),
  };
  // Any certificate passes the handshake, which proves its key; the Hosts' status shows whose certificate it is.
  const server = createServer(
    {
      key,
      cert,
      requestCert: true,
      rejectUnauthorized: false,
      minVersion: "TLSv1.3",
      handshakeTimeout: HANDSHAKE_MS,
      headersTimeout: HANDSHAKE_MS,
      requestTimeout: HANDSHAKE_MS,
      maxHeaderSize: 4_096,
      keepAliveTimeout: 30_000,
      connectionsCheckingInterval: CHECK_MS,
      requireHostHeader: false,
    },
    (request, response) => {
      answer(request, response, context).catch((err: unknown) => {
        // The content was removed meanwhile, or the client has disconnected.
        const isExpected = systemCode(err) === "ENOENT" || response.destroyed || signal.aborted;
        if (!isExpected) log.warn({ err }, "cannot serve content to a peer");
        response.destroy();
      });
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  server.on("connection", connections.arrive);
  server.on("secureConnection", (socket) => {
    if (fingerprintOf(socket) === undefined) socket.destroy();
  });
  // Node would answer these on its own, before the client is authenticated.
  for (const event of ["tlsClientError", "clientError"])
    server.on(event, (_, socket: Duplex) => socket.destroy());
  for (const event of ["checkContinue", "checkExpectation"])
    server.on(event, (request: IncomingMessage) => request.socket.destroy());
  const port = await listenOn(server, options);
  server.on("error", (err) => log.warn({ err }, "cannot accept a connection from a peer"));
  return port;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  server: ServerContext,
): Promise<void> {
  const closed = new AbortController();
  response.once("close", () => closed.abort());
  const context = { ...server, signal: AbortSignal.any([server.signal, closed.signal]) };
  const socket = request.socket as TLSSocket;
  if (await isPipelined(socket, response, context)) return void socket.destroy();
  const host = await identifyHost(socket, context);
  // An unknown client gets no answer, not even a reason, and no watch is started for it.
  if (host === undefined) return void socket.destroy();
  server.connections.prove(socket);
  const done = server.directory.use();
  try {
    await answerHost(host, request, response, context);
  } finally {
    done();
  }
}

/**
 * True if the request was sent before the previous one was answered. Waits for `close` of the previous response, because the
 * client may have received all of it before this process counts it as flushed.
 */
async function isPipelined(
  socket: Socket,
  response: ServerResponse,
  { responses, clock, stallMs = STALL_MS, signal }: ServerContext,
): Promise<boolean> {
  const before = responses.get(socket);
  responses.set(socket, response);
  if (before === undefined || before.closed) return false;
  if (!before.writableEnded) return true;
  const cancel = clock.after(stallMs, () => socket.destroy());
  await once(before, "close", { signal }).finally(cancel);
  return false;
}

async function answerHost(
  host: Host,
  request: IncomingMessage,
  response: ServerResponse,
  context: ServerContext,
): Promise<void> {
  const { contents, grants } = context;
  if (request.method !== "GET" && request.method !== "HEAD")
    return refuse(response, 405, { allow: "GET, HEAD" });
  const [, sha256] = /^\/sha256\/([0-9a-f]{64})$/.exec(request.url ?? "") ?? [];
  const content = sha256 === undefined ? undefined : await contents.find(sha256);
  if (sha256 === undefined || content === undefined) return refuse(response, 404);
  const requestedDigest = request.headers[HEADER_ADDRESS]?.toString();
  const provenance = await contents.provenance(sha256);
  // The same answer as for missing content: clients must not learn what other content this host has.
  if (!(await grants.allows({ host, sha256, provenance, requestedDigest }))) return refuse(response, 404);
  if (request.method === "HEAD") {
    const length = content.totalBytes();
    const headers = { [HEADER_AVAILABLE]: content.available(), "accept-ranges": "bytes" };
    return void response
      .writeHead(200, { ...headers, ...(length === undefined ? {} : { "content-length": length }) })
      .end();
  }
  const start = chunkStart(request.headers.range);
  if (start === undefined) return refuse(response, 416);
  await sendChunk({ host: host.metadata.name, sha256, content, start, response }, context);
}

/** The start of the requested chunk; undefined unless the range is exactly one chunk. The last chunk of a content is shorter. */
export function chunkStart(range: string | undefined): number | undefined {
  const [, from, to] = /^bytes=(\d{1,15})-(\d{1,15})$/.exec(range ?? "") ?? [];
  const start = Number(from);
  return start % CHUNK_BYTES === 0 && Number(to) === start + CHUNK_BYTES - 1 ? start : undefined;
}

interface ChunkRequest {
  readonly host: string;
  readonly sha256: string;
  readonly content: SharedContent;
  readonly start: number;
  readonly response: ServerResponse;
}

async function sendChunk(chunkRequest: ChunkRequest, context: ServerContext): Promise<void> {
  const { host, sha256, content, start, response } = chunkRequest;
  const { queues, signal } = context;
  await waitForChunk(content, start, context);
  if (signal.aborted) return;
  const totalBytes = content.totalBytes();
  if (content.isAborted()) return refuse(response, 404);
  if (totalBytes !== undefined && start >= totalBytes) return refuse(response, 416);
  const end = Math.min(start + CHUNK_BYTES, totalBytes ?? Number.POSITIVE_INFINITY);
  const available = content.available();
  if (totalBytes === undefined || available < end)
    return refuse(response, 503, { [HEADER_AVAILABLE]: String(available), "retry-after": "1" });
  const prefix = end === totalBytes ? sha256 : await content.prefix(start / CHUNK_BYTES);
  if (prefix === undefined) return refuse(response, 404);
  const leave = await enterQueue(host, queues, signal);
  try {
    response.writeHead(206, {
      "content-length": end - start,
      "content-range": `bytes ${start}-${end - 1}/${totalBytes}`,
      [HEADER_PREFIX]: prefix,
      [HEADER_AVAILABLE]: available,
    });
    if (!(await sendBytes({ content, start, end, response }, context))) response.destroy();
  } finally {
    leave();
  }
}

/** Resolves when it is the host's turn. */
async function enterQueue(
  host: string,
  queues: Map<string, DownloadQueue>,
  signal: AbortSignal,
): Promise<() => void> {
  const queue = queues.get(host) ?? createDownloadQueue(MAX_CHUNKS_PER_HOST);
  queues.set(host, queue);
  const leave = await queue.enter(
    () => [host],
    signal,
    () => undefined,
  );
  return () => {
    leave();
    if (queue.running() === 0) queues.delete(host);
  };
}

/** False if not all bytes were sent: the client may disconnect, and a part may be restarted while it is read. */
async function sendBytes(
  { content, start, end, response }: Pick<ChunkRequest, "content" | "start" | "response"> & { end: number },
  context: PeerServerOptions,
): Promise<boolean> {
  const { pace, signal } = context;
  const blockBytes = Math.min(BLOCK_BYTES, end - start);
  // The memory is allocated and the file opened once there is bandwidth for them.
  await pace(blockBytes, signal);
  const file = await content.open();
  try {
    // One block is filled while the other one is sent.
    const blocks = [0, 1].map(() => Buffer.allocUnsafeSlow(blockBytes));
    let sent: Promise<void> = Promise.resolve();
    for (let at = start; at < end; ) {
      const [block = Buffer.alloc(0)] = blocks;
      blocks.reverse();
      const length = Math.min(blockBytes, end - at);
      if (at > start) await pace(length, signal);
      if (signal.aborted) return false;
      const { bytesRead } = await file.read(block, 0, length, at);
      if (bytesRead === 0) return false;
      at += bytesRead;
      await sent;
      sent = write(response, { block: block.subarray(0, bytesRead), isLast: at === end }, context);
    }
    await sent;
    if (signal.aborted) return false;
    for (const block of blocks) freeBuffer(block);
    return true;
  } finally {
    await file.close();
  }
}

/** Returns once the chunk is available, it can no longer become available, the client has disconnected, or after `waitMs`. */
async function waitForChunk(
  content: SharedContent,
  start: number,
  { clock, waitMs: timeoutMs = WAIT_MS, signal }: PeerServerOptions,
): Promise<void> {
  const isDecided = (): boolean => {
    const total = content.totalBytes();
    const end = Math.min(start + CHUNK_BYTES, total ?? Number.POSITIVE_INFINITY);
    return content.isAborted() || content.available() >= end || (total !== undefined && start >= total);
  };
  await waitForChange(isDecided, content.onMore, { clock, timeoutMs, signal });
}

/** Resolves when the block may be filled again. The last block also ends the response, so that the client may send its next request. */
function write(
  response: ServerResponse,
  { block, isLast }: { readonly block: Buffer; readonly isLast: boolean },
  { clock, stallMs = STALL_MS, signal }: PeerServerOptions,
): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      cancel();
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const cancel = clock.after(stallMs, () => response.destroy());
    // Without a connection the callback may never be called.
    signal.addEventListener("abort", finish, { once: true });
    if (isLast) response.end(block, finish);
    else response.write(block, finish);
  });
}

/**
 * Checks each request, so that a host that was removed gets no more chunks. The Host of an unknown client is read by the name
 * in its certificate, with a pause for addresses that failed.
 */
async function identifyHost(
  socket: TLSSocket,
  { directory, connections, log, signal }: ServerContext,
): Promise<Host | undefined> {
  const fingerprint = fingerprintOf(socket);
  if (fingerprint === undefined) return undefined;
  const known = directory.withFingerprint(fingerprint);
  if (known !== undefined) return known.host;
  const { remoteAddress = "" } = socket;
  const name = claimedName(socket);
  if (name === undefined || connections.isRefused(remoteAddress)) return undefined;
  try {
    const host = await directory.readHost(name);
    if (host?.status?.peer?.fingerprint === fingerprint) return host;
    connections.refuse(remoteAddress);
  } catch (err) {
    if (!signal.aborted)
      log.warn({ err, peer: name }, "cannot read the Host of a peer that requests weights");
  }
  return undefined;
}

function refuse(response: ServerResponse, status: number, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-length": 0, ...headers }).end();
}
