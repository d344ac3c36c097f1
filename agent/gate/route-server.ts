/** One route's listener: authenticates clients, admits and relays requests, and counts those in flight. */

import { createHash, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import type { IncomingHttpHeaders, IncomingMessage, Server, ServerResponse } from "node:http";
import type { Server as TlsServer } from "node:https";
import { Server as NetServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { SERVICE_HEADER } from "../../src/gateway/headers.ts";
import { Pipelines } from "../../src/http/pipelines.ts";
import type { Log } from "../../src/util/ports.ts";
import type { BodyBudget, BodyShare } from "./body/budget.ts";
import { narrowList } from "./body/lists.ts";
import { readRequestBody } from "./body/read.ts";
import { isRejection, type RequestRejection, rejectRequest, retryLater } from "./body/rejection.ts";
import { modelNamingOf } from "./body/rewrite-model.ts";
import { rejectTinyChunks } from "./body/tiny-chunks.ts";
import { incrementCount, type RouteCounters } from "./counters.ts";
import { IdleConnections } from "./idle-connections.ts";
import { createListener, protocolOf } from "./listener.ts";
import { admitRequest, type PathRules, parseErrorStatus, pathRulesOf, withAdapters } from "./paths.ts";
import { createRelayPool, type RelayExchange, type RelayTarget, relay, watchReading } from "./relay.ts";
import { DEFAULT_LIMITS, type GateLimits, type GateRoute, isRouteFor, type RouteStatus } from "./routes.ts";
import { readFingerprints, SealedClients } from "./sealed-clients.ts";

const LISTEN_RETRY_MS = 1_000;
/** Interval at which a gate that has handed over closes connections that were idle for too long. */
const IDLE_CHECK_MS = 5_000;
/** Retry interval for files that cannot be read or are invalid. */
const READ_RETRY_MS = 1_000;
/** Time for a rejected request's body to arrive before its connection is closed: the client would lose the response with it. */
const LINGER_MS = 500;

/** Time for the client to read the rejection. */
const REJECTION_READ_MS = 1_000;

const NO_CLIENTS = "clients: spec.clientFingerprints of the replica has no entry, so no client may connect";
const UNEXPECTED = rejectRequest(417, "expectation", "Expect takes 100-continue only");

export interface RoutePorts {
  readonly log: Log;
  readonly counters: RouteCounters;
  /** Shared by all routes. */
  readonly bodies: BodyBudget;
  /** Called when a request or connection ends. */
  readonly onEnd: () => void;
}

export class RouteServer {
  readonly #ports: RoutePorts;
  readonly #limits: GateLimits;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Responses that have not finished. */
  readonly #open = new Set<ServerResponse>();
  readonly #broken = new WeakSet<ServerResponse>();
  readonly #pipelines = new Pipelines();
  readonly #connections = new IdleConnections();
  readonly #problems = new Map<string, string>();
  /** Only with a sealed route. */
  readonly #clients: SealedClients | undefined;
  #route: GateRoute;
  #rules: PathRules;
  #keys: readonly Buffer[] | "unreadable" | undefined;
  #target: RelayTarget;
  #isLeaving = false;
  #hasCertificate = false;
  #listenTimer: NodeJS.Timeout | undefined;
  #readTimer: NodeJS.Timeout | undefined;
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(route: GateRoute, ports: RoutePorts) {
    this.#route = route;
    this.#rules = pathRulesOf(route);
    this.#ports = ports;
    this.#limits = { ...DEFAULT_LIMITS, ...route.limits };
    this.#target = { ...route.target, key: undefined, pool: createRelayPool() };
    this.#clients = route.tls?.clientFingerprintsFile === undefined ? undefined : new SealedClients();
    this.#server = this.#createServer(route.tls);
    this.update(route);
  }

  #createServer(tls: GateRoute["tls"]): Server {
    const server = createListener(this.#limits, tls);
    // Makes room for the client's next attempt, unless all connections are busy.
    server.on("drop", () => this.#connections.closeIdle());
    server.on("request", (request, response) => this.#handle(request, response));
    server.on("checkExpectation", (request, response) => this.#handle(request, response, UNEXPECTED));
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      this.#clients?.arrive(socket);
      socket.once("close", () => {
        this.#sockets.delete(socket);
        this.#ports.onEnd();
      });
    });
    // Before the listener that begins to read requests.
    server.prependListener("secureConnection", (socket: TLSSocket) => {
      if (this.#clients?.prove(socket) === false) socket.destroy();
    });
    server.on("clientError", (error: NodeJS.ErrnoException, socket) =>
      this.#answerUnreadable(error.code, socket),
    );
    server.on("error", (error) => {
      // A connection that cannot be accepted (too many open files) does not end the listener.
      const isListening = server.listening;
      if (isListening || this.#noteProblem("listen", error))
        this.#ports.log.error({ err: error.message, isListening }, "cannot listen, or accept a connection");
      if (!isListening) this.#listenTimer = setTimeout(() => void this.listen(), LISTEN_RETRY_MS);
    });
    server.on("listening", () => this.#problems.delete("listen"));
    return server;
  }

  /**
   * Applies the route's new settings, and reads keys and certificates again. If one cannot be read, the old one stays active
   * and reading is retried every second.
   */
  update(route: GateRoute): void {
    clearTimeout(this.#readTimer);
    const { target, tls, state } = route;
    const isSameTarget = target.host === this.#route.target.host && target.port === this.#route.target.port;
    this.#route = route;
    this.#rules = pathRulesOf(route);
    const pool = isSameTarget ? this.#target.pool : createRelayPool();
    this.#target = { host: target.host, port: target.port, key: this.#targetKey(), pool };
    const oldKeys = this.#keys ?? "unreadable";
    this.#keys = this.#read("keys", () => route.keyFiles?.flatMap(readGateKeys).map(keyDigestOf), oldKeys);
    const file = tls?.clientFingerprintsFile;
    if (file !== undefined)
      this.#read("clients", () => this.#clients?.list(readFingerprints(file)), undefined);
    if (tls !== undefined) {
      const server = this.#server as TlsServer;
      const install = (): true => {
        server.setSecureContext({
          cert: readFileSync(tls.certFile),
          key: readFileSync(tls.keyFile),
          ca: tls.clientCAFile && readFileSync(tls.clientCAFile),
          ...protocolOf(tls),
        });
        return true;
      };
      this.#hasCertificate = this.#read("tls", install, this.#hasCertificate);
    }
    if (state === "draining") this.#connections.closeIdle();
    const isUnread = [...this.#problems.keys()].some((what) => what !== "listen");
    if (isUnread && !this.#isLeaving)
      this.#readTimer = setTimeout(() => this.update(this.#route), READ_RETRY_MS);
  }

  /** Resolves once the server listens or has failed to. A failure is retried, and the status has the reason. */
  async listen(): Promise<void> {
    clearTimeout(this.#listenTimer);
    if (this.#isLeaving || this.#server.listening) return;
    const { address, port } = this.#route.listen;
    await new Promise<void>((resolve) => {
      const settled = (): void => {
        this.#server.off("listening", settled).off("error", settled);
        resolve();
      };
      this.#server.on("listening", settled).on("error", settled);
      this.#server.listen(port, address);
    });
  }

  /** Listens on the socket of an earlier gate, which may still accept on it too. */
  take(listening: NetServer): void {
    this.#server.listen(listening);
  }

  /** The socket that another gate may take. */
  get listening(): NetServer | undefined {
    return this.#server.listening ? this.#server : undefined;
  }

  /** Accepts no more connections, and ends each one with its next response; `atOnce` closes idle ones immediately. */
  leave(atOnce: boolean): void {
    this.#isLeaving = true;
    clearTimeout(this.#listenTimer);
    clearTimeout(this.#readTimer);
    // The method of an HTTP server would also close idle connections, on which a request may be on its way.
    if (this.#server.listening) NetServer.prototype.close.call(this.#server);
    if (atOnce) this.#connections.closeIdle();
    // Every byte, even an empty line, would restart Node's own idle timeout.
    const { idleMs } = this.#limits;
    this.#idleTimer ??= setInterval(
      () => this.#connections.closeIdle(idleMs),
      Math.min(idleMs, IDLE_CHECK_MS),
    );
  }

  /** Removes the route: closes the listener and all connections. */
  end(): void {
    this.leave(true);
    clearInterval(this.#idleTimer);
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    this.#target.pool.destroy();
  }

  status(): RouteStatus {
    const problems = [...this.#problems].map(([what, why]) => `${what}: ${why}`);
    const hasNoClients = this.#clients?.isEmpty === true;
    return {
      state: this.#route.state,
      inFlight: this.#open.size,
      streams: this.#ports.counters.streams,
      connections: this.#sockets.size,
      listening: this.#server.listening,
      isServing:
        this.#server.listening &&
        this.#keys !== "unreadable" &&
        !hasNoClients &&
        (this.#route.tls === undefined || this.#hasCertificate),
      problems: hasNoClients && !this.#problems.has("clients") ? [...problems, NO_CLIENTS] : problems,
    };
  }

  #handle(request: IncomingMessage, response: ServerResponse, refusal?: RequestRejection): void {
    const { socket } = request;
    if (!this.#pipelines.begin(socket, this.#limits.pipelined)) {
      incrementCount(this.#ports.counters.refused, "pipelined");
      return;
    }
    this.#open.add(response);
    this.#connections.begin(request);
    const share = this.#ports.bodies.open(this.#route.id);
    const onClose = (): void => {
      if (!this.#open.delete(response)) return;
      socket.off("close", onClose);
      this.#pipelines.end(socket);
      this.#connections.end(request);
      share.release();
      const status = this.#broken.has(response) ? 599 : 499;
      incrementCount(this.#ports.counters.requests, response.writableFinished ? response.statusCode : status);
      if (this.#route.state === "draining") this.#connections.closeIdle();
      this.#ports.onEnd();
    };
    response.once("close", onClose);
    // Before Node 24 a response that waits for an earlier one gets no event when its connection closes.
    socket.once("close", onClose);
    socket.setMaxListeners(0);
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    const rule = refusal ?? this.#admit(request);
    if (isRejection(rule)) this.#refuse(request, response, rule);
    else if (rule.kind === "raw") this.#relay(request, response, rule, share, "stream");
    else if (rule.kind === "json") {
      const { bodyBytes: limitBytes } = this.#limits;
      const naming = modelNamingOf(this.#route, rule, request.headers[SERVICE_HEADER] !== undefined);
      readRequestBody(request, { limitBytes, share, naming }, (body) => {
        if (!isRejection(body)) return this.#relay(request, response, rule, share, body);
        share.release();
        this.#refuse(request, response, body);
      });
    } else {
      // Reads and drops the body.
      rejectTinyChunks(request);
      if (rule.kind === "health") this.#send(response, 200, { status: "ok" });
      else this.#relay(request, response, rule, share);
    }
  }

  #admit(request: IncomingMessage): ReturnType<typeof admitRequest> {
    if (request.headers.host === undefined && request.httpVersion === "1.1")
      return rejectRequest(400, "malformed", "the Host header is missing");
    const rule = admitRequest(request.method ?? "", request.url ?? "", this.#rules);
    const isHealth = !isRejection(rule) && (rule.kind === "health" || (rule.kind === "raw" && rule.isOpen));
    const isOpen = isHealth || this.#isPreflight(request);
    const unauthorized = isOpen ? undefined : this.#authorize(request);
    if (unauthorized !== undefined) return unauthorized;
    if (isRejection(rule)) return rule;
    if (!isRouteFor(this.#route, request.headers[SERVICE_HEADER]))
      return retryLater("misrouted", "another service has this endpoint now");
    if (this.#open.size > this.#limits.requests) return retryLater("busy", "too many concurrent requests");
    if (this.#route.state === "draining") return retryLater("draining", "this endpoint is being drained");
    if (this.#route.state === "none")
      return retryLater("unavailable", "the model is not available on this host now");
    return withAdapters(rule, request.method, this.#route.adapters);
  }

  /** Browsers send preflights without a key. Only an engine that requires a key itself gets them: another might treat one as a request. */
  #isPreflight({ method }: IncomingMessage): boolean {
    const { protocol, target } = this.#route;
    return protocol === "any" && method === "OPTIONS" && target.keyFile !== undefined;
  }

  #authorize({ headers }: IncomingMessage): RequestRejection | undefined {
    if (this.#keys === undefined) return undefined;
    if (this.#keys === "unreadable") return retryLater("keys", "the keys of this endpoint cannot be read");
    if (hasValidKey(headers, this.#keys)) return undefined;
    const message = "a valid API key is needed: Authorization: Bearer KEY";
    return { ...rejectRequest(401, "unauthorized", message), headers: { "www-authenticate": "Bearer" } };
  }

  #relay(
    request: IncomingMessage,
    response: ServerResponse,
    rule: Exclude<ReturnType<typeof admitRequest>, RequestRejection | { kind: "health" }>,
    share: BodyShare,
    body?: readonly Buffer[] | "stream",
  ): void {
    if (response.destroyed) return;
    const { model, service, protocol } = this.#route;
    const rewrite = (list: Buffer) => narrowList(list, model, service);
    const exchange: RelayExchange = {
      request,
      response,
      path: rule.path,
      target: this.#isPreflight(request) ? { ...this.#target, key: undefined } : this.#target,
      isKeyOurs: protocol !== "any" || this.#keys !== undefined,
      counters: this.#ports.counters,
      share,
      unreadMs: this.#limits.unreadMs,
      isLast: () => this.#isLast(),
      refuse: (refusal) => this.#refuse(request, response, refusal),
      // The user who runs an adopted daemon may have changed its key.
      keyRefused: () => {
        this.#target = { ...this.#target, key: this.#targetKey() };
      },
      breakOff: () => this.#breakOff(response),
      isLookedUp: protocol === "ollama",
      rewrite: rule.kind === "list" ? rewrite : undefined,
    };
    relay(exchange, body);
  }

  #breakOff(response: ServerResponse): void {
    const { req: request } = response;
    this.#broken.add(response);
    // An HTTP/1.0 client would take the end of the connection for the end of the answer.
    if (request.httpVersion === "1.0") this.#reset(request.socket);
    else response.destroy();
  }

  /** Resets the TCP connection, which with TLS is below the socket of the request. */
  #reset({ remoteAddress, remotePort }: Socket): void {
    for (const socket of this.#sockets)
      if (socket.remotePort === remotePort && socket.remoteAddress === remoteAddress)
        socket.resetAndDestroy();
  }

  #isLast(): boolean {
    return this.#isLeaving || this.#route.state === "leaving" || this.#route.state === "draining";
  }

  #refuse(request: IncomingMessage, response: ServerResponse, refusal: RequestRejection): void {
    if (response.destroyed || response.headersSent) return;
    const { status, reason, message, headers } = refusal;
    incrementCount(this.#ports.counters.refused, reason);
    const isOllama = request.url?.startsWith("/api/") === true;
    const body = { error: isOllama ? message : { message, type: reason, code: status } };
    const answer = (): void => {
      clearTimeout(timer);
      request.off("end", answer);
      this.#send(response, status, body, headers);
    };
    const timer = setTimeout(answer, LINGER_MS);
    // Reads and drops the remaining body, at most until the request times out.
    rejectTinyChunks(request);
    request.resume();
    const isLast = this.#isLast() || headers?.connection === "close";
    if (request.readableEnded || !isLast) answer();
    else request.once("end", answer);
  }

  #send(
    response: ServerResponse,
    status: number,
    body: object,
    headers: RequestRejection["headers"] = {},
  ): void {
    const { unreadMs } = this.#limits;
    const expectRead = watchReading(response, { unreadMs, breakOff: () => this.#breakOff(response) });
    sendJson(response, status, body, this.#isLast() ? { ...headers, connection: "close" } : headers);
    expectRead();
  }

  /** Answers a request that the parser rejects, or that took too long, unless that would be in the middle of another answer. */
  #answerUnreadable(code: string | undefined, socket: Duplex): void {
    const [status, reason] = parseErrorStatus(code);
    const isAnswering = [...this.#open].some((open) => open.req.socket === socket && open.headersSent);
    if (code !== "ECONNRESET") incrementCount(this.#ports.counters.refused, reason);
    const isUnreachable = !socket.writable || code === "ECONNRESET" || isHandshakeError(code);
    const isUnknown = this.#clients?.has(socket) === false;
    if (isAnswering || isUnreachable || isUnknown) return void socket.destroy();
    rejectMalformed(socket, status, reason);
  }

  #targetKey(): string | undefined {
    const { keyFile } = this.#route.target;
    return this.#read("target key", () => keyFile && readGateKeys(keyFile)[0], this.#target.key);
  }

  /** The result of `read`; if it throws, `old`, with the reason in the status. */
  #read<T>(what: string, read: () => T, old: T): T {
    try {
      const value = read();
      this.#problems.delete(what);
      return value;
    } catch (error) {
      if (this.#noteProblem(what, error))
        this.#ports.log.error({ what, err: String(error) }, "a file cannot be used");
      return old;
    }
  }

  /** True if the problem is new. */
  #noteProblem(what: string, error: unknown): boolean {
    const why = error instanceof Error ? error.message : String(error);
    if (this.#problems.get(what) === why) return false;
    this.#problems.set(what, why);
    return true;
  }
}

/** One key per line. A file without keys is an error: it must not disable authentication. */
function readGateKeys(file: string): readonly string[] {
  const keys = readFileSync(file, "utf8")
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
  if (keys.length === 0) throw new Error(`${file} holds no key`);
  return keys;
}

/** Comparing digests takes the same time for keys of any length. */
function keyDigestOf(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}

/** Compares every key, also after a match, so that the time reveals nothing about the keys. */
function hasValidKey(headers: IncomingHttpHeaders, keys: readonly Buffer[]): boolean {
  const bearer = /^Bearer +(\S+)$/i.exec(headers.authorization ?? "")?.[1];
  const shown = keyDigestOf(bearer ?? String(headers["x-api-key"] ?? ""));
  return keys.filter((key) => timingSafeEqual(key, shown)).length > 0;
}

function sendJson(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>>,
): void {
  if (response.destroyed || response.headersSent) return;
  const text = JSON.stringify(body);
  const length = Buffer.byteLength(text);
  response.writeHead(status, { "content-type": "application/json", "content-length": length, ...headers });
  response.end(text);
}

/** True for errors before the end of the TLS handshake, when no response can be sent. */
function isHandshakeError(code: string | undefined): boolean {
  return code?.startsWith("ERR_TLS") === true || code?.startsWith("ERR_SSL") === true;
}

/** Answers a request that the parser rejects, for which there is no response object. */
function rejectMalformed(socket: Duplex, status: string, reason: string): void {
  const body = JSON.stringify({
    error: { message: status, type: reason, code: Number.parseInt(status, 10) },
  });
  const head = `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: application/json`;
  const timer = setTimeout(() => socket.destroy(), REJECTION_READ_MS);
  socket.once("close", () => clearTimeout(timer));
  socket.end(`${head}\r\nContent-Length: ${body.length}\r\n\r\n${body}`, () => socket.destroy());
}
