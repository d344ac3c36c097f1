/** One request's way to the daemon and back: streamed, with back-pressure, and never sent twice. */
import { Agent, type IncomingMessage, type ServerResponse, request as sendRequest } from "node:http";
import { observeValue } from "../../src/http/metrics/histogram.ts";
import type { BodyShare } from "./body/budget.ts";
import { HeldBytes } from "./body/held-bytes.ts";
import { type RequestRejection, rejectRequest, retryLater } from "./body/rejection.ts";
import { detectTinyChunks, rejectTinyChunks } from "./body/tiny-chunks.ts";
import type { RouteCounters } from "./counters.ts";

/** Below the 5 s after which common servers close theirs: a connection must not end just as it is used again. */
const POOL_IDLE_MS = 2_000;
const MAX_LIST = 8 * 1024 ** 2;

/** Of one connection only (RFC 9110, 7.6.1), or set by the gate: what clients show us is not for the daemon. */
const NOT_SENT_ON = new Set([
  ...["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"],
  ...["proxy-authorization", "proxy-authenticate", "expect", "host", "content-length"],
]);
const CREDENTIALS = ["authorization", "x-api-key", "cookie"];
const NOT_SENT_WITH_KEY = new Set([...NOT_SENT_ON, ...CREDENTIALS]);
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
  /** What the daemon asks for; absent where it asks for none. */
  readonly key: string | undefined;
  readonly pool: Agent;
}

export interface RelayExchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly target: RelayTarget;
  readonly path: string;
  /** The engine asks clients for no key of its own. */
  readonly isKeyOurs: boolean;
  readonly counters: RouteCounters;
  /** What this request may hold in memory: its body, or an answer that is rewritten. */
  readonly share: BodyShare;
  /** For which a client may leave what it was sent unread: its request holds a place of the engine. */
  readonly unreadMs: number;
  /** Whether the client's connection ends with this response, asked when its head is sent. */
  readonly isLast: () => boolean;
  /** Answers in the daemon's place, where nothing of its answer was sent yet. */
  readonly refuse: (refusal: RequestRejection) => void;
  /** The daemon does not accept the gate's own key. */
  readonly keyRefused: () => void;
  /** Ends the client's connection in the middle of an answer. */
  readonly breakOff: () => void;
  /** Where given, a successful answer is read whole and replaced by this; undefined cannot be read as what it should be. */
  readonly rewrite?: (body: Buffer) => string | undefined;
}

/** Complete; absent for a request without one. "stream": passed on as it comes. */
export type RelayedBody = readonly Buffer[] | "stream" | undefined;

export function createRelayPool(): Agent {
  return new Agent({ keepAlive: true, maxFreeSockets: 64, timeout: POOL_IDLE_MS });
}

/**
 * A client that leaves aborts the daemon's work; a daemon that breaks off ends the client's connection, so that half an
 * answer is never taken for a whole one. Nothing is repeated: a daemon that got a request may have worked on it. The share of
 * a body is released when nothing of it is held any more: no closure here keeps it for as long as the answer takes.
 */
export function relay(exchange: RelayExchange, body: RelayedBody): void {
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
  response.once("close", () => {
    if (!response.writableFinished) call.destroy();
  });
  call.once("response", (answer) => {
    // The client's key was right: it is the gate's own that the daemon refused.
    if (answer.statusCode === 401 && exchange.isKeyOurs) {
      answer.destroy();
      exchange.keyRefused();
      exchange.refuse(
        rejectRequest(502, "upstream", "the model's server does not accept the gate's API key"),
      );
    } else if (exchange.rewrite === undefined || answer.statusCode !== 200) pass(answer, exchange, startedAt);
    else rewriteAnswer(answer, exchange, exchange.rewrite);
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
    // There is no body. Whatever comes in spite of that would be the next request on the engine's connection.
    if (lengthOf(request, body).length === 0) return void call.end();
    rejectTinyChunks(request);
    request.pipe(call);
    // Node aborts no request that was answered before its body was complete.
    const leave = (): void => {
      if (!request.complete) call.destroy();
    };
    request.socket.once("close", leave);
    request.once("end", () => request.socket.off("close", leave));
    return;
  }
  if (body !== undefined) call.once("finish", exchange.share.release);
  for (const part of body ?? []) call.write(part);
  call.end();
}

function isUnreachable(code = ""): boolean {
  return ["ECONNREFUSED", "EHOSTUNREACH", "ENETUNREACH", "EADDRNOTAVAIL", "ETIMEDOUT"].includes(code);
}

function pass(answer: IncomingMessage, exchange: RelayExchange, startedAt: number): void {
  const { response, counters } = exchange;
  const { statusCode = 0 } = answer;
  // Node reads it, and throws where it is sent on.
  if (statusCode < 200 || statusCode > 999) {
    answer.destroy();
    exchange.refuse(
      rejectRequest(502, "upstream", `the model's server answered with the status ${statusCode}`),
    );
    return;
  }
  response.writeHead(statusCode, headersOf(answer, exchange));
  // In one packet with the first bytes where those are here already, and no later than that.
  setImmediate(() => response.flushHeaders());
  const unread = watchReading(response, exchange);
  let lastAt = 0;
  answer.on("data", (chunk: Buffer) => {
    const now = performance.now();
    if (lastAt === 0) observeValue(counters.firstByte, (now - startedAt) / 1_000);
    else observeValue(counters.gaps, (now - lastAt) / 1_000);
    lastAt = now;
    if (response.write(chunk)) return;
    answer.pause();
    unread();
  });
  response.on("drain", () => answer.resume());
  // Only a complete answer ends; one that was cut short is an error.
  answer.once("end", () => {
    response.end();
    unread();
  });
  answer.once("error", () => exchange.breakOff());
}

/** Ends a client that reads nothing: called when something waits to be read. */
export function watchReading(
  response: ServerResponse,
  { unreadMs, breakOff }: Pick<RelayExchange, "unreadMs" | "breakOff">,
): () => void {
  let late: NodeJS.Timeout | undefined;
  const read = (): void => clearTimeout(late);
  response.on("drain", read).once("finish", read).once("close", read);
  return () => {
    clearTimeout(late);
    if (!response.writableFinished && !response.destroyed) late = setTimeout(breakOff, unreadMs);
  };
}

function rewriteAnswer(
  answer: IncomingMessage,
  exchange: RelayExchange,
  rewrite: (body: Buffer) => string | undefined,
): void {
  const held = new HeldBytes();
  const areCrumbs = detectTinyChunks();
  const fail = (why: string) => exchange.refuse(rejectRequest(502, "upstream", `the model's server ${why}`));
  answer.on("data", (chunk: Buffer) => {
    if (held.length + chunk.length > MAX_LIST || areCrumbs(chunk)) answer.destroy(new Error("too large"));
    else if (exchange.share.take(held.needs(chunk.length))) held.append(chunk);
    else {
      exchange.refuse(retryLater("busy", "too many large requests at once"));
      answer.destroy();
    }
  });
  answer.once("error", () => fail("broke off its answer"));
  answer.once("end", () => {
    const text = rewrite(Buffer.concat(held.slice(0, held.length)));
    if (text === undefined) return fail("gave no list of models");
    const headers = ["content-type", "application/json", "content-length", String(Buffer.byteLength(text))];
    const unread = watchReading(exchange.response, exchange);
    exchange.response.writeHead(200, [...headers, ...lastHeaders(exchange)]).end(text);
    unread();
  });
}

/** As a flat list, with the client's own spelling and order. */
function headersFor({ request, target, rewrite, isKeyOurs }: RelayExchange, body: RelayedBody): string[] {
  const headers = ["Host", `${target.host}:${target.port}`];
  const ours = isKeyOurs ? NOT_SENT_WITH_KEY : NOT_SENT_ON;
  const left = rewrite === undefined ? ours : new Set([...ours, "accept-encoding"]);
  appendEndToEnd(headers, request.rawHeaders, request.headers.connection, left);
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

/** Headers that `Connection` names are of one connection too. */
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
