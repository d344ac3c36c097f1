/** Relays one request to the daemon and its answer back: streamed, with back-pressure, and only once to a daemon that may work on it. */
import { Agent, type IncomingMessage, type ServerResponse, request as sendRequest } from "node:http";
import type { Duplex } from "node:stream";
import { isLookupFailure, LOOKUP_TRIES } from "../../src/engines/ollama/lookup.ts";
import { observeValue } from "../../src/http/metrics/histogram.ts";
import { BodyBuffer } from "./body/body-buffer.ts";
import type { BodyShare } from "./body/budget.ts";
import { type RequestRejection, rejectRequest, retryLater } from "./body/rejection.ts";
import { detectTinyChunks, rejectTinyChunks } from "./body/tiny-chunks.ts";
import { countFirstByte, type RouteCounters } from "./counters.ts";

/** Below the 5 s after which common servers close idle connections: a connection must not close just as it is reused. */
const POOL_IDLE_MS = 2_000;
/** Types of streams in the protocols that the gate passes. */
const STREAM_TYPES = /^(text\/event-stream|application\/x-ndjson)\b/i;
const MAX_LIST = 8 * 1024 ** 2;
/** For this long after a body was sent, it is kept for being sent again: the daemon looks the model up first. */
const LOOKUP_MS = 1_000;

/** Headers that apply to one connection only (RFC 9110, 7.6.1), or that the gate sets itself. */
const NOT_SENT_ON = new Set([
  ...["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"],
  ...["proxy-authorization", "proxy-authenticate", "expect", "host", "content-length"],
]);
/** Clients' credentials for the gate are not sent to the daemon. */
const NOT_SENT_WITH_KEY = new Set([...NOT_SENT_ON, "authorization", "x-api-key", "cookie"]);
const NOT_SENT_BACK = new Set([
  "connection",
  "keep-alive",
  "proxy-connection",
  "transfer-encoding",
  "upgrade",
  "trailer",
]);

export interface RelayTarget {
  readonly host: string;
  readonly port: number;
  /** The key that the daemon requires; undefined if it requires none. */
  readonly key: string | undefined;
  readonly pool: Agent;
}

export interface RelayExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: RelayTarget;
  readonly path: string;
  /** The gate, not the engine, requires the key from clients. */
  readonly isKeyOurs: boolean;
  readonly counters: RouteCounters;
  /** The memory of this request: its body, or an answer that is rewritten. */
  readonly share: BodyShare;
  /** A client that does not read for this long is disconnected: its request occupies a slot of the engine. */
  readonly unreadMs: number;
  /** Called when the head is sent; true if the client's connection ends with this response. */
  readonly isLast: () => boolean;
  /** Answers in place of the daemon; does nothing once part of its answer was sent. */
  readonly refuse: (refusal: RequestRejection) => void;
  /** Called when the daemon does not accept the gate's key. */
  readonly keyRefused: () => void;
  /** Closes the client's connection in the middle of an answer. */
  readonly breakOff: () => void;
  /** The daemon is Ollama, which may fail to look the model up. */
  readonly isLookedUp: boolean;
  /** If given, a successful answer is read completely and replaced by the result; undefined: the answer is not a list. */
  readonly rewrite?: (body: Buffer) => string | undefined;
}

/** The complete body; undefined for a request without one. "stream": passed as it arrives. */
export type RelayedBody = readonly Buffer[] | "stream" | undefined;

/** Connections that carried a stream. Some engines close them after it, and announce that only to a client that asks for it. */
const streamed = new WeakSet<Duplex>();

/** Not `keepAlive: false`, which would close a connection whose response ends before its request. */
class RelayPool extends Agent {
  override keepSocketAlive(socket: Duplex): boolean {
    // The types lack its result: the connection is closed unless it is true.
    const isKept: unknown = super.keepSocketAlive(socket);
    return isKept === true && !streamed.has(socket);
  }
}

export function createRelayPool(): Agent {
  return new RelayPool({ keepAlive: true, maxFreeSockets: 64, timeout: POOL_IDLE_MS });
}

/**
 * A client that disconnects aborts the daemon's work. A daemon that closes its connection early closes the client's, so that a
 * partial answer is never taken for a complete one. No request is retried that the daemon may have worked on. The share of a
 * body is released once the body was sent: no closure may keep the body until the answer is complete.
 */
export function relay(exchange: RelayExchange, body: RelayedBody, triesLeft = LOOKUP_TRIES): void {
  const { request, response, target, path } = exchange;
  const startedAt = performance.now();
  const call = sendRequest({
    host: target.host,
    port: target.port,
    agent: target.pool,
    method: exchange.rewrite === undefined ? request.method : "GET",
    path,
    headers: headersFor(exchange, body),
  });
  const kept =
    Array.isArray(body) && triesLeft > 1 && exchange.isLookedUp ? keep(body, exchange.share) : undefined;
  response.once("close", () => {
    kept?.release();
    if (!response.writableFinished) call.destroy();
  });
  call.once("response", (answer) => {
    const { statusCode = 0 } = answer;
    // The client's key was valid: the daemon rejected the gate's key.
    if (statusCode === 401 && exchange.isKeyOurs) {
      answer.destroy();
      exchange.keyRefused();
      exchange.refuse(
        rejectRequest(502, "upstream", "the model's server does not accept the gate's API key"),
      );
    } else if (kept !== undefined && statusCode >= 400)
      readStart(answer, (start) => {
        if (start === undefined)
          return exchange.refuse(rejectRequest(502, "upstream", "the model's server broke off its answer"));
        const again = isLookupFailure(statusCode, start) ? kept.take() : undefined;
        if (again !== undefined) {
          answer.resume();
          return relay(exchange, again, triesLeft - 1);
        }
        kept.release();
        pass(answer, exchange, startedAt);
      });
    else if (exchange.rewrite === undefined || statusCode !== 200) {
      kept?.release();
      pass(answer, exchange, startedAt);
    } else rewriteAnswer(answer, exchange, exchange.rewrite);
  });
  call.on("error", (error: NodeJS.ErrnoException) => {
    if (response.headersSent) exchange.breakOff();
    else if (isUnreachable(error.code))
      exchange.refuse(retryLater("unavailable", "the model's server is not reachable"));
    else
      exchange.refuse(
        rejectRequest(502, "upstream", `the model's server closed the connection: ${error.code}`),
      );
  });
  if (body === "stream") {
    // There is no body. Bytes that arrive in spite of that would be the next request on the engine's connection.
    if (lengthOf(request, body).length === 0) return void call.end();
    rejectTinyChunks(request);
    request.pipe(call);
    // Node does not abort a request that was answered before its body was complete.
    const abort = (): void => {
      if (!request.complete) call.destroy();
    };
    request.socket.once("close", abort);
    request.once("end", () => request.socket.off("close", abort));
    return;
  }
  if (body !== undefined) call.once("finish", kept?.sent ?? exchange.share.release);
  for (const part of body ?? []) call.write(part);
  call.end();
}

/** Keeps a body that may have to be sent again, for no longer than the daemon needs to look the model up. */
function keep(body: readonly Buffer[], share: BodyShare) {
  let kept: readonly Buffer[] | undefined = body;
  let timer: NodeJS.Timeout | undefined;
  const release = (): void => {
    clearTimeout(timer);
    kept = undefined;
    share.release();
  };
  return {
    sent: (): void => {
      if (kept !== undefined) timer = setTimeout(release, LOOKUP_MS);
    },
    release,
    /** Undefined if the body is no longer kept. */
    take: (): readonly Buffer[] | undefined => {
      clearTimeout(timer);
      const taken = kept;
      kept = undefined;
      return taken;
    },
  };
}

/** Calls back with the first piece of an answer, which remains to be read; undefined if it breaks off before. */
function readStart(answer: IncomingMessage, onStart: (text: string | undefined) => void): void {
  const broken = (): void => onStart(undefined);
  answer.once("error", broken);
  answer.once("readable", () => {
    answer.off("error", broken);
    const start: Buffer | null = answer.read();
    if (start !== null) answer.unshift(start);
    onStart(start?.toString() ?? "");
  });
}

function isUnreachable(code = ""): boolean {
  return ["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "ETIMEDOUT"].includes(code);
}

function pass(answer: IncomingMessage, exchange: RelayExchange, startedAt: number): void {
  const { response, counters } = exchange;
  const { statusCode = 0 } = answer;
  // Node reads such a status, but throws when it is sent.
  if (statusCode < 200 || statusCode > 999) {
    answer.destroy();
    exchange.refuse(
      rejectRequest(502, "upstream", `the model's server answered with the status ${statusCode}`),
    );
    return;
  }
  response.writeHead(statusCode, headersOf(answer, exchange));
  // Sends the head in one packet with the first bytes if they have arrived, else immediately.
  setImmediate(() => response.flushHeaders());
  const expectRead = watchReading(response, exchange);
  const isStream = STREAM_TYPES.test(answer.headers["content-type"] ?? "");
  if (isStream) streamed.add(answer.socket);
  let lastAt = 0;
  answer.on("data", (chunk: Buffer) => {
    const now = performance.now();
    if (lastAt === 0) countFirstByte(counters, (now - startedAt) / 1_000, isStream);
    else observeValue(counters.gaps, (now - lastAt) / 1_000);
    lastAt = now;
    if (response.write(chunk)) return;
    answer.pause();
    expectRead();
  });
  response.on("drain", () => answer.resume());
  // A complete answer emits `end`; one that was cut short emits `error`.
  answer.once("end", () => {
    response.end();
    expectRead();
  });
  answer.once("error", () => exchange.breakOff());
}

/** Returns a function to call when data is pending: it disconnects a client that does not read in time. */
export function watchReading(
  response: ServerResponse,
  { unreadMs, breakOff }: Pick<RelayExchange, "unreadMs" | "breakOff">,
): () => void {
  let timer: NodeJS.Timeout | undefined;
  const onRead = (): void => clearTimeout(timer);
  response.on("drain", onRead).once("finish", onRead).once("close", onRead);
  return () => {
    clearTimeout(timer);
    if (!response.writableFinished && !response.destroyed) timer = setTimeout(breakOff, unreadMs);
  };
}

function rewriteAnswer(
  answer: IncomingMessage,
  exchange: RelayExchange,
  rewrite: (body: Buffer) => string | undefined,
): void {
  const buffer = new BodyBuffer();
  const hasTinyChunks = detectTinyChunks();
  const fail = (why: string) => exchange.refuse(rejectRequest(502, "upstream", `the model's server ${why}`));
  answer.on("data", (chunk: Buffer) => {
    if (buffer.length + chunk.length > MAX_LIST || hasTinyChunks(chunk))
      answer.destroy(new Error("too large"));
    else if (exchange.share.take(buffer.bytesToAllocate(chunk.length))) buffer.append(chunk);
    else {
      exchange.refuse(retryLater("busy", "too many concurrent large requests"));
      answer.destroy();
    }
  });
  answer.once("error", () => fail("broke off its answer"));
  answer.once("end", () => {
    const text = rewrite(Buffer.concat(buffer.slice(0, buffer.length)));
    if (text === undefined) return fail("gave no list of models");
    const headers = ["content-type", "application/json", "content-length", String(Buffer.byteLength(text))];
    const expectRead = watchReading(exchange.response, exchange);
    exchange.response.writeHead(200, [...headers, ...lastHeaders(exchange)]).end(text);
    expectRead();
  });
}

/** The headers as a flat list, with the client's spelling and order. */
function headersFor({ request, target, rewrite, isKeyOurs }: RelayExchange, body: RelayedBody): string[] {
  const headers = ["Host", `${target.host}:${target.port}`];
  const omitted = isKeyOurs ? NOT_SENT_WITH_KEY : NOT_SENT_ON;
  const without = rewrite === undefined ? omitted : new Set([...omitted, "accept-encoding"]);
  appendEndToEnd(headers, request.rawHeaders, request.headers.connection, without);
  if (rewrite !== undefined) headers.push("Accept-Encoding", "identity");
  if (target.key !== undefined) headers.push("Authorization", `Bearer ${target.key}`);
  return [...headers, ...lengthOf(request, body)];
}

function lengthOf({ headers }: IncomingMessage, body: RelayedBody): readonly string[] {
  if (body === undefined) return [];
  if (body !== "stream") return ["Content-Length", String(body.reduce((sum, part) => sum + part.length, 0))];
  if (headers["transfer-encoding"] !== undefined) return ["Transfer-Encoding", "chunked"];
  const length = headers["content-length"];
  return length === undefined ? [] : ["Content-Length", length];
}

function headersOf(answer: IncomingMessage, exchange: RelayExchange): string[] {
  const headers: string[] = [];
  appendEndToEnd(headers, answer.rawHeaders, answer.headers.connection, NOT_SENT_BACK);
  return [...headers, ...lastHeaders(exchange)];
}

function lastHeaders({ isLast }: RelayExchange): readonly string[] {
  return isLast() ? ["Connection", "close"] : [];
}

/** Also omits the headers that `Connection` names: they apply to one connection too. */
function appendEndToEnd(
  to: string[],
  raw: readonly string[],
  connection: string | undefined,
  without: Set<string>,
): void {
  const named = new Set(
    connection
      ?.toLowerCase()
      .split(",")
      .map((name) => name.trim()),
  );
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] ?? "";
    const lower = name.toLowerCase();
    if (!without.has(lower) && !named.has(lower)) to.push(name, raw[index + 1] ?? "");
  }
}
