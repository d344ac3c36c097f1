/** Serves content to other hosts of the cluster: by checksum, in chunks, at a steady rate. */
import { once } from "node:events";
import type { FileHandle } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import type { Host } from "../../src/api/host.ts";
import { listenOn } from "../../src/http/listener.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { ContentLookup, SharedContent } from "../store/content/content-sharing.ts";
import { CHUNK_BYTES } from "../store/content/prefix-hash.ts";
import { createDownloadQueue, type DownloadQueue, type RateLimiter } from "../store/download/host-limits.ts";
import { freeBuffer } from "../store/download/response-writer.ts";
import type { Directory } from "./directory.ts";
import { createGrants, type Grants } from "./grants.ts";
import { claimedName, fingerprintOf, type PeerIdentity } from "./identity.ts";
import { createPeerConnections, type PeerConnections } from "./peer-connections.ts";

export const HEADER_PREFIX = "metalbridge-prefix-sha256";
export const HEADER_AVAILABLE = "metalbridge-available";
/** The file's address at the origin of the host that asks, as a digest. */
export const HEADER_ADDRESS = "metalbridge-address-sha256";

export interface PeerServerOptions {
  readonly identity: PeerIdentity;
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly contents: ContentLookup;
  readonly directory: Directory;
  /** Of all that this host gives. */
  readonly pace: RateLimiter;
  readonly clock: Clock;
  readonly log: Log;
  /** Ends the listener and every read under way. */
  readonly signal: AbortSignal;
  /** How long a request for a chunk that this host is still fetching waits for it. */
  readonly waitMs?: number;
  /** How long the other side may take to read a block before the connection is closed. */
  readonly stallMs?: number;
}

interface Gate extends PeerServerOptions {
  readonly visitors: PeerConnections;
  readonly grants: Grants;
  /** The last response of each connection. */
  readonly responses: WeakMap<Socket, ServerResponse>;
  /** Hosts that are being given chunks. */
  readonly queues: Map<string, DownloadQueue>;
}

const BLOCK_BYTES = 512 << 10;
const WAIT_MS = 10_000;
const STALL_MS = 30_000;
const HANDSHAKE_MS = 5_000;
const CHECK_MS = 1_000;
const MAX_CONNECTIONS = 256;
/** Chunks that one host is given at once; its other requests are queued before they take memory or a file. */
const MAX_CHUNKS_PER_HOST = 4;

/** Resolves with the port once it listens; rejects with `PortTaken` or `ListenFailed`. Does not keep the process alive. */
export async function startPeerServer(options: PeerServerOptions): Promise<number> {
  const { identity, directory, clock, log, signal } = options;
  const { key, cert } = identity;
  const visitors = createPeerConnections(clock);
  const gate: Gate = {
    ...options,
    visitors,
    grants: createGrants((name) => directory.readWanted(name), clock),
    responses: new WeakMap(),
    queues: new Map(),
  };
  // Any certificate passes the handshake, which proves its key; whose it is, the Hosts' status says.
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
      answer(request, response, gate).catch((err: unknown) => {
        // Removed since it was found, or the other side has left.
        const isUsual = systemCode(err) === "ENOENT" || response.destroyed || signal.aborted;
        if (!isUsual) log.warn({ err }, "cannot give content to a peer");
        response.destroy();
      });
    },
  );
  server.maxConnections = MAX_CONNECTIONS;
  server.on("connection", visitors.arrive);
  server.on("secureConnection", (socket) => {
    if (fingerprintOf(socket) === undefined) socket.destroy();
  });
  // Node would answer these itself, before it is known who asks.
  for (const event of ["tlsClientError", "clientError"])
    server.on(event, (_, socket: Duplex) => socket.destroy());
  for (const event of ["checkContinue", "checkExpectation"])
    server.on(event, (request: IncomingMessage) => request.socket.destroy());
  const port = await listenOn(server, options);
  server.on("error", (err) => log.warn({ err }, "cannot accept a connection of a peer"));
  return port;
}

async function answer(request: IncomingMessage, response: ServerResponse, gate: Gate): Promise<void> {
  const leave = new AbortController();
  response.once("close", () => leave.abort());
  const signal = AbortSignal.any([gate.signal, leave.signal]);
  const socket = request.socket as TLSSocket;
  if (!(await isNext(socket, response, gate, signal))) return void socket.destroy();
  const host = await hostAt(socket, gate, signal);
  // A stranger gets nothing, not even a reason, and nothing is watched for it.
  if (host === undefined) return void socket.destroy();
  gate.visitors.prove(socket);
  const done = gate.directory.use();
  try {
    await answerHost(host, request, response, { ...gate, signal });
  } finally {
    done();
  }
}

/**
 * False for a request that was sent before the one before it was answered. The end of an answer may reach its reader before
 * it counts as flushed here.
 */
async function isNext(
  socket: Socket,
  response: ServerResponse,
  { responses, clock, stallMs = STALL_MS }: Gate,
  signal: AbortSignal,
): Promise<boolean> {
  const before = responses.get(socket);
  responses.set(socket, response);
  if (before === undefined || before.closed) return true;
  if (!before.writableEnded) return false;
  const cancel = clock.after(stallMs, () => socket.destroy());
  await once(before, "close", { signal }).finally(cancel);
  return true;
}

async function answerHost(
  host: Host,
  request: IncomingMessage,
  response: ServerResponse,
  { signal, ...gate }: Gate,
): Promise<void> {
  if (request.method !== "GET" && request.method !== "HEAD")
    return refuse(response, 405, { allow: "GET, HEAD" });
  const [, sha256] = /^\/sha256\/([0-9a-f]{64})$/.exec(request.url ?? "") ?? [];
  const content = sha256 === undefined ? undefined : await gate.contents.find(sha256);
  if (sha256 === undefined || content === undefined) return refuse(response, 404);
  const askedFrom = request.headers[HEADER_ADDRESS]?.toString();
  const provenance = await gate.contents.provenance(sha256);
  // As if it were not here: what this host has of others is not the asking one's business.
  if (!(await gate.grants.mayHave({ host, sha256, provenance, askedFrom }))) return refuse(response, 404);
  if (request.method === "HEAD") {
    const length = content.totalBytes();
    const headers = { [HEADER_AVAILABLE]: content.available(), "accept-ranges": "bytes" };
    return void response
      .writeHead(200, { ...headers, ...(length === undefined ? {} : { "content-length": length }) })
      .end();
  }
  const start = chunkStart(request.headers.range);
  if (start === undefined) return refuse(response, 416);
  await sendChunk(
    { host: host.metadata.name, sha256, content, start, response, signal },
    { ...gate, signal },
  );
}

/** Requests are for one whole chunk; the last one is shorter. */
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
  readonly signal: AbortSignal;
}

async function sendChunk(chunkRequest: ChunkRequest, gate: Gate): Promise<void> {
  const { host, sha256, content, start, response, signal } = chunkRequest;
  const chunk = start / CHUNK_BYTES;
  await whenThere(content, start, gate, signal);
  if (signal.aborted) return;
  const totalBytes = content.totalBytes();
  if (content.isAborted()) return refuse(response, 404);
  if (totalBytes !== undefined && start >= totalBytes) return refuse(response, 416);
  const end = Math.min(start + CHUNK_BYTES, totalBytes ?? Number.POSITIVE_INFINITY);
  const available = content.available();
  if (totalBytes === undefined || available < end)
    return refuse(response, 503, { [HEADER_AVAILABLE]: String(available), "retry-after": "1" });
  const prefix = end === totalBytes ? sha256 : await content.prefix(chunk);
  if (prefix === undefined) return refuse(response, 404);
  const leave = await enter(host, gate.queues, signal);
  try {
    response.writeHead(206, {
      "content-length": end - start,
      "content-range": `bytes ${start}-${end - 1}/${totalBytes}`,
      [HEADER_PREFIX]: prefix,
      [HEADER_AVAILABLE]: available,
    });
    if (!(await send({ content, start, end, response, signal }, gate))) response.destroy();
  } finally {
    leave();
  }
}

/** Resolves when it is the host's turn. */
async function enter(
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

interface Sending {
  readonly content: SharedContent;
  readonly start: number;
  readonly end: number;
  readonly response: ServerResponse;
  readonly signal: AbortSignal;
}

/** Whether all of it was sent: the other side may leave, and a part may be started over while it is read. */
async function send({ content, ...sending }: Sending, gate: PeerServerOptions): Promise<boolean> {
  const { start, end, signal } = sending;
  const blockBytes = Math.min(BLOCK_BYTES, end - start);
  // The memory and the file are taken once there is bandwidth for them.
  await gate.pace(blockBytes, signal);
  const file = await content.open();
  try {
    return await sendBlocks({ file, blockBytes, ...sending }, gate);
  } finally {
    await file.close();
  }
}

async function sendBlocks(
  sending: Omit<Sending, "content"> & { readonly file: FileHandle; readonly blockBytes: number },
  gate: PeerServerOptions,
): Promise<boolean> {
  const { file, blockBytes, start, end, response, signal } = sending;
  // One is filled while the other is sent.
  const blocks = [0, 1].map(() => Buffer.allocUnsafeSlow(blockBytes));
  let sent: Promise<void> = Promise.resolve();
  for (let at = start; at < end; ) {
    const [block = Buffer.alloc(0)] = blocks;
    blocks.reverse();
    const length = Math.min(blockBytes, end - at);
    if (at > start) await gate.pace(length, signal);
    if (signal.aborted) return false;
    const { bytesRead } = await file.read(block, 0, length, at);
    if (bytesRead === 0) return false;
    at += bytesRead;
    await sent;
    sent = write(response, { block: block.subarray(0, bytesRead), isLast: at === end }, gate, signal);
  }
  await sent;
  if (signal.aborted) return false;
  for (const block of blocks) freeBuffer(block);
  return true;
}

/** Returns once the chunk is there, none will come, the other side left, or after a while. */
async function whenThere(
  content: SharedContent,
  start: number,
  { clock, waitMs = WAIT_MS }: PeerServerOptions,
  signal: AbortSignal,
): Promise<void> {
  const isThere = (): boolean => {
    const total = content.totalBytes();
    const end = Math.min(start + CHUNK_BYTES, total ?? Number.POSITIVE_INFINITY);
    return content.isAborted() || content.available() >= end || (total !== undefined && start >= total);
  };
  if (isThere() || signal.aborted) return;
  await new Promise<void>((resolve) => {
    const finish = (): void => {
      cancel();
      stopListening();
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const cancel = clock.after(waitMs, finish);
    const stopListening = content.onMore(() => {
      if (isThere()) finish();
    });
    signal.addEventListener("abort", finish, { once: true });
  });
}

/**
 * Resolves when the block may be filled again. The last one ends the response at once: whoever has all of it may send the
 * next request.
 */
function write(
  response: ServerResponse,
  { block, isLast }: { readonly block: Buffer; readonly isLast: boolean },
  { clock, stallMs = STALL_MS }: PeerServerOptions,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      cancel();
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const cancel = clock.after(stallMs, () => response.destroy());
    // Without a connection the callback may never come.
    signal.addEventListener("abort", finish, { once: true });
    if (isLast) response.end(block, finish);
    else response.write(block, finish);
  });
}

/**
 * Each request is judged: a host that was removed ends with the chunk that it was getting. Who is not known yet is looked
 * up by the name in the certificate, once in a while for each address.
 */
async function hostAt(
  socket: TLSSocket,
  { directory, visitors, log }: Gate,
  signal: AbortSignal,
): Promise<Host | undefined> {
  const fingerprint = fingerprintOf(socket);
  if (fingerprint === undefined) return undefined;
  const known = directory.withFingerprint(fingerprint);
  if (known !== undefined) return known.host;
  const { remoteAddress = "" } = socket;
  const name = claimedName(socket);
  if (name === undefined || visitors.isRefused(remoteAddress)) return undefined;
  try {
    const host = await directory.readHost(name);
    if (host?.status?.peer?.fingerprint === fingerprint) return host;
    visitors.refuse(remoteAddress);
  } catch (err) {
    if (!signal.aborted) log.warn({ err, peer: name }, "cannot look up a host that asks for weights");
  }
  return undefined;
}

function refuse(response: ServerResponse, status: number, headers: Record<string, string> = {}): void {
  response.writeHead(status, { "content-length": 0, ...headers }).end();
}
