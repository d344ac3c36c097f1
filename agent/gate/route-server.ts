/** One route's listener: who may ask, what is passed on, how many requests are in flight. */
import { readFileSync } from "node:fs";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Server as TlsServer } from "node:https";
import { Server as NetServer, type Socket } from "node:net";
import type { Duplex } from "node:stream";
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
import { type Digest, hasValidKey, keyDigestOf, readGateKeys } from "./keys.ts";
import { createListener } from "./listener.ts";
import { admitRequest, type PathRules, parseErrorStatus, pathRulesOf } from "./paths.ts";
import { createRelayPool, type RelayExchange, type RelayTarget, relay, watchReading } from "./relay.ts";
import { isHandshakeError, rejectMalformed, sendJson } from "./responses.ts";
import { DEFAULT_LIMITS, type GateLimits, type GateRoute, type RouteStatus } from "./routes.ts";

const LISTEN_AGAIN_MS = 1_000;
/** For a gate that has handed over to look whether a connection has been idle for too long. */
const LEAVE_MS = 5_000;
/** For files that could not be read, or make no sense. */
const READ_AGAIN_MS = 1_000;
/** For a refused request's body to arrive before its connection is closed: the refusal would be lost with it. */
const LINGER_MS = 500;

const UNEXPECTED = rejectRequest(417, "expectation", "Expect takes 100-continue only");

export interface RoutePorts {
  readonly log: Log;
  readonly counters: RouteCounters;
  /** Shared by all routes. */
  readonly bodies: BodyBudget;
  /** One request or connection less. */
  readonly onLess: () => void;
}

export class RouteServer {
  readonly #ports: RoutePorts;
  readonly #limits: GateLimits;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Responses that are not over. */
  readonly #open = new Set<ServerResponse>();
  readonly #broken = new WeakSet<ServerResponse>();
  readonly #pipelines = new Pipelines();
  readonly #connections = new IdleConnections();
  readonly #problems = new Map<string, string>();
  #route: GateRoute;
  #passages: PathRules;
  #keys: readonly Digest[] | "unreadable" | undefined;
  #target: RelayTarget;
  #isLeaving = false;
  #hasCertificate = false;
  #retry: NodeJS.Timeout | undefined;
  #readAgain: NodeJS.Timeout | undefined;
  #leaving: NodeJS.Timeout | undefined;

  constructor(route: GateRoute, ports: RoutePorts) {
    this.#route = route;
    this.#passages = pathRulesOf(route);
    this.#ports = ports;
    this.#limits = { ...DEFAULT_LIMITS, ...route.limits };
    this.#target = { ...route.target, key: undefined, pool: createRelayPool() };
    this.#server = this.#createServer(route.tls !== undefined);
    this.update(route);
  }

  #createServer(hasTls: boolean): Server {
    const server = createListener(this.#limits, hasTls);
    // The next one finds room, unless all are busy.
    server.on("drop", () => this.#connections.closeIdle());
    server.on("request", (request, response) => this.#handle(request, response));
    server.on("checkExpectation", (request, response) => this.#handle(request, response, UNEXPECTED));
    server.on("connection", (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once("close", () => {
        this.#sockets.delete(socket);
        this.#ports.onLess();
      });
    });
    server.on("clientError", (error: NodeJS.ErrnoException, socket) =>
      this.#answerUnreadable(error.code, socket),
    );
    server.on("error", (error) => {
      // A connection that cannot be accepted (too many open files) is not the end of the listener.
      const isListening = server.listening;
      if (isListening || this.#problem("listen", error))
        this.#ports.log.error({ err: error.message, isListening }, "cannot listen, or accept a connection");
      if (!isListening) this.#retry = setTimeout(() => void this.listen(), LISTEN_AGAIN_MS);
    });
    server.on("listening", () => this.#problems.delete("listen"));
    return server;
  }

  /**
   * Takes what the file says now. Keys and certificates are read again; those that cannot be read leave the old ones, and
   * are read again every second.
   */
  update(route: GateRoute): void {
    clearTimeout(this.#readAgain);
    const { target, tls, state } = route;
    const isSameTarget = target.host === this.#route.target.host && target.port === this.#route.target.port;
    this.#route = route;
    this.#passages = pathRulesOf(route);
    const pool = isSameTarget ? this.#target.pool : createRelayPool();
    this.#target = { host: target.host, port: target.port, key: this.#targetKey(), pool };
    const oldKeys = this.#keys ?? "unreadable";
    this.#keys = this.#read("keys", () => route.keyFiles?.flatMap(readGateKeys).map(keyDigestOf), oldKeys);
    if (tls !== undefined) {
      const server = this.#server as TlsServer;
      const install = (): true => {
        server.setSecureContext({ cert: readFileSync(tls.certFile), key: readFileSync(tls.keyFile) });
        return true;
      };
      this.#hasCertificate = this.#read("tls", install, this.#hasCertificate);
    }
    if (state === "draining") this.#connections.closeIdle();
    const isUnread = [...this.#problems.keys()].some((what) => what !== "listen");
    if (isUnread && !this.#isLeaving)
      this.#readAgain = setTimeout(() => this.update(this.#route), READ_AGAIN_MS);
  }

  /** Resolves once it listens, or has failed to: then it retries, and the status says why. */
  async listen(): Promise<void> {
    clearTimeout(this.#retry);
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

  /** What another gate may take. */
  get listening(): NetServer | undefined {
    return this.#server.listening ? this.#server : undefined;
  }

  /** Accepts no more and ends each connection with its next response; `atOnce` also the idle ones. */
  leave(atOnce: boolean): void {
    this.#isLeaving = true;
    clearTimeout(this.#retry);
    clearTimeout(this.#readAgain);
    // Not the method of an HTTP server, which also closes idle connections, under a request that may be on its way.
    if (this.#server.listening) NetServer.prototype.close.call(this.#server);
    if (atOnce) this.#connections.closeIdle();
    // Node's own time for it starts again with every byte, empty lines included.
    const { idleMs } = this.#limits;
    this.#leaving ??= setInterval(() => this.#connections.closeIdle(idleMs), Math.min(idleMs, LEAVE_MS));
  }

  /** The route is not wanted any more: nothing of it stays. */
  end(): void {
    this.leave(true);
    clearInterval(this.#leaving);
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    this.#target.pool.destroy();
  }

  status(): RouteStatus {
    return {
      state: this.#route.state,
      inFlight: this.#open.size,
      connections: this.#sockets.size,
      listening: this.#server.listening,
      isServing:
        this.#server.listening &&
        this.#keys !== "unreadable" &&
        (this.#route.tls === undefined || this.#hasCertificate),
      problems: [...this.#problems].map(([what, why]) => `${what}: ${why}`),
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
    const over = (): void => {
      if (!this.#open.delete(response)) return;
      socket.off("close", over);
      this.#pipelines.end(socket);
      this.#connections.end(request);
      share.release();
      const isWhole = response.writableFinished;
      incrementCount(
        this.#ports.counters.requests,
        isWhole ? response.statusCode : this.#broken.has(response) ? 599 : 499,
      );
      if (this.#route.state === "draining") this.#connections.closeIdle();
      this.#ports.onLess();
    };
    response.once("close", over);
    // Before Node 24 a response that waits for an earlier one does not hear of its connection's end.
    socket.once("close", over);
    socket.setMaxListeners(0);
    request.on("error", () => undefined);
    response.on("error", () => undefined);
    const passage = refusal ?? this.#admit(request);
    // Their bodies are of no use.
    if (!isRejection(passage) && (passage.kind === "health" || passage.kind === "list"))
      rejectTinyChunks(request);
    if (isRejection(passage)) this.#refuse(request, response, passage);
    else if (passage.kind === "health") this.#send(response, 200, { status: "ok" });
    else if (passage.kind === "list") this.#relay(request, response, passage, share);
    else if (passage.kind === "raw") this.#relay(request, response, passage, share, "stream");
    else {
      const reading = {
        limitBytes: this.#limits.bodyBytes,
        share,
        naming: modelNamingOf(this.#route, passage.nameKeys),
      };
      readRequestBody(request, reading, (body) => {
        if (!isRejection(body)) return this.#relay(request, response, passage, share, body);
        share.release();
        this.#refuse(request, response, body);
      });
    }
  }

  #admit(request: IncomingMessage): ReturnType<typeof admitRequest> {
    if (request.headers.host === undefined && request.httpVersion === "1.1")
      return rejectRequest(400, "malformed", "the Host header is missing");
    const passage = admitRequest(request.method ?? "", request.url ?? "", this.#passages);
    const isHealth =
      !isRejection(passage) && (passage.kind === "health" || (passage.kind === "raw" && passage.isOpen));
    const isOpen = isHealth || this.#isPreflight(request);
    const unauthorized = isOpen ? undefined : this.#authorize(request);
    if (unauthorized !== undefined) return unauthorized;
    if (isRejection(passage)) return passage;
    if (this.#open.size > this.#limits.requests) return retryLater("busy", "too many requests at once");
    if (this.#route.state === "draining") return retryLater("draining", "this endpoint is being drained");
    if (this.#route.state === "none") return retryLater("unavailable", "the model is not available here now");
    return passage;
  }

  /** Browsers send it without a key. Only an engine that asks for one itself may get it so: another might take it for a request. */
  #isPreflight({ method }: IncomingMessage): boolean {
    const { protocol, target } = this.#route;
    return protocol === "any" && method === "OPTIONS" && target.keyFile !== undefined;
  }

  #authorize({ headers }: IncomingMessage): RequestRejection | undefined {
    if (this.#keys === undefined) return undefined;
    if (this.#keys === "unreadable") return retryLater("keys", "the keys of this endpoint cannot be read");
    if (hasValidKey(headers, this.#keys)) return undefined;
    const refusal = rejectRequest(
      401,
      "unauthorized",
      "a valid API key is needed: Authorization: Bearer KEY",
    );
    return { ...refusal, headers: { "www-authenticate": "Bearer" } };
  }

  #relay(
    request: IncomingMessage,
    response: ServerResponse,
    passage: Exclude<ReturnType<typeof admitRequest>, RequestRejection | { kind: "health" }>,
    share: BodyShare,
    body?: readonly Buffer[] | "stream",
  ): void {
    if (response.destroyed) return;
    const { model, service, protocol } = this.#route;
    const rewrite = (list: Buffer) => narrowList(list, model, service);
    const exchange: RelayExchange = {
      request,
      response,
      path: passage.path,
      target: this.#isPreflight(request) ? { ...this.#target, key: undefined } : this.#target,
      isKeyOurs: protocol !== "any" || this.#keys !== undefined,
      counters: this.#ports.counters,
      share,
      unreadMs: this.#limits.unreadMs,
      isLast: () => this.#isLast(),
      refuse: (refusal) => this.#refuse(request, response, refusal),
      // Those who run a daemon that was found may have changed it.
      keyRefused: () => {
        this.#target = { ...this.#target, key: this.#targetKey() };
      },
      breakOff: () => this.#breakOff(response),
      rewrite: passage.kind === "list" ? rewrite : undefined,
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

  /** With TLS the connection below it: the socket that requests come by has none to reset. */
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
      clearTimeout(late);
      request.off("end", answer);
      this.#send(response, status, body, headers);
    };
    const late = setTimeout(answer, LINGER_MS);
    // What is left of the body is read and dropped, at most until the request times out.
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
    const unread = watchReading(response, { unreadMs, breakOff: () => this.#breakOff(response) });
    sendJson(response, status, body, this.#isLast() ? { ...headers, connection: "close" } : headers);
    unread();
  }

  /** A request that the parser refuses, or that took too long. Nothing is said in the middle of an answer. */
  #answerUnreadable(code: string | undefined, socket: Duplex): void {
    const [status, reason] = parseErrorStatus(code);
    const isAnswering = [...this.#open].some((open) => open.req.socket === socket && open.headersSent);
    if (code !== "ECONNRESET") incrementCount(this.#ports.counters.refused, reason);
    const isDeaf = !socket.writable || code === "ECONNRESET" || isHandshakeError(code);
    if (isAnswering || isDeaf) return void socket.destroy();
    rejectMalformed(socket, status, reason);
  }

  #targetKey(): string | undefined {
    const { keyFile } = this.#route.target;
    return this.#read("target key", () => keyFile && readGateKeys(keyFile)[0], this.#target.key);
  }

  /** What `read` gives, or `old` with the reason in the status. */
  #read<T>(what: string, read: () => T, old: T): T {
    try {
      const value = read();
      this.#problems.delete(what);
      return value;
    } catch (error) {
      if (this.#problem(what, error))
        this.#ports.log.error({ what, err: String(error) }, "a file cannot be used");
      return old;
    }
  }

  /** True where it is news. */
  #problem(what: string, error: unknown): boolean {
    const why = error instanceof Error ? error.message : String(error);
    if (this.#problems.get(what) === why) return false;
    this.#problems.set(what, why);
    return true;
  }
}
