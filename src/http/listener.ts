/** The one HTTP listener: routes by path, a token where strangers may connect, and coded errors for a port that is taken. */
import { createHash, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { Server as HttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { MetalbridgeError } from "../api/errors.ts";
import type { Clock, Log } from "../util/ports.ts";
import { limitConnections } from "./connections.ts";
import { isFromProgram, isLoopback } from "./loopback.ts";
import { Pipelines } from "./pipelines.ts";

export interface HttpResponse {
  readonly status: number;
  /** A string or bytes are sent as plain text unless `type` says otherwise, anything else as JSON. */
  readonly body: string | Uint8Array | Readonly<Record<string, unknown>>;
  readonly type?: string;
}

export type RouteHandler = () => HttpResponse | Promise<HttpResponse>;

export interface ListenOptions {
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** By path, without the query. Read requests only. */
  readonly routes: Readonly<Record<string, RouteHandler>>;
  /** Answers every other request, of any method. Absent: 404. */
  readonly otherwise?: (request: IncomingMessage) => Promise<HttpResponse>;
  /** Closes the listener and its connections. */
  readonly signal: AbortSignal;
  /**
   * Every request must send the token in this file; it is read for each request, so a new token takes effect at once.
   * Absent: on loopback only programs of this machine are answered, and no web page.
   */
  readonly tokenFile?: string;
}

/** Where strangers may connect, slow and numerous clients must not cost us. */
const GUARDED_MS = 10_000;
const CONNECTIONS = { total: 64, perAddress: 32 };
/** No scraper and no probe sends more before it has the answer; each answer can be a whole page. */
const PIPELINED = 2;
/** An answer that its client does not read is dropped after this. */
const SILENCE_MS = 60_000;

/** Resolves with the port once it listens; rejects with `PortTaken` or `ListenFailed`. Does not keep the process alive. */
export async function listen({ address, port, signal, ...options }: ListenOptions): Promise<number> {
  const limits =
    options.tokenFile === undefined ? {} : { requestTimeout: GUARDED_MS, headersTimeout: GUARDED_MS };
  const isForPrograms = options.tokenFile === undefined && (address === "localhost" || isLoopback(address));
  const server = createServer(limits, requestListener({ ...options, isForPrograms }));
  limitConnections(server, CONNECTIONS);
  server.setTimeout(SILENCE_MS);
  return listenOn(server, { address, port, signal });
}

/** The same for a server that answers in its own way. A connection that cannot be accepted is no end of the process. */
export async function listenOn(
  server: Server | HttpsServer,
  { address, port, signal }: Pick<ListenOptions, "address" | "port" | "signal">,
): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => {
      server.off("listening", resolve);
      reject(explainListenError(cause, address, port));
    });
    server.listen(port, address, resolve);
  });
  server.removeAllListeners("error");
  // Too many open files, say: who connects will try again.
  server.on("error", () => {});
  server.unref();
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  if (signal.aborted) close();
  else signal.addEventListener("abort", close, { once: true });
  return (server.address() as AddressInfo).port;
}

export interface ListenRetryOptions {
  readonly clock: Clock;
  readonly log: Log;
  readonly what: string;
  readonly retryMs?: number;
  readonly onListening?: ((port: number) => void) | undefined;
  /** Called with the reason of each attempt that failed. */
  readonly onFailed?: (error: Error) => void;
}

const LISTEN_RETRY_MS = 10_000;

/** Not awaited: the address may come up long after this program (Wi-Fi, VPN), and the port become free. Logged once each. */
export function retryListen(
  attempt: () => Promise<number>,
  { address, port, signal }: Pick<ListenOptions, "address" | "port" | "signal">,
  { clock, log, what, retryMs = LISTEN_RETRY_MS, onListening, onFailed }: ListenRetryOptions,
): void {
  let logged: string | undefined;
  const next = (): void => {
    attempt().then(
      (bound) => {
        if (signal.aborted) return;
        log.info({ address, port: bound }, `listening for ${what}`);
        onListening?.(bound);
      },
      (err: Error) => {
        if (signal.aborted) return;
        onFailed?.(err);
        if (logged !== err.message)
          log.warn({ err, address, port }, `cannot listen for ${what} yet; retrying`);
        logged = err.message;
        const cancel = clock.after(retryMs, () => {
          signal.removeEventListener("abort", cancel);
          next();
        });
        signal.addEventListener("abort", cancel, { once: true });
      },
    );
  };
  next();
}

/** The coded error behind the failure to listen. */
export function explainListenError(cause: unknown, address: string, port: number): MetalbridgeError {
  const where = `${address.includes(":") ? `[${address}]` : address}:${port}`;
  if ((cause as NodeJS.ErrnoException).code === "EADDRINUSE") {
    const remedy = {
      summary: "stop the program that uses the port, or choose another port",
      command: `lsof -i :${port}`,
    };
    return new MetalbridgeError("PortTaken", `cannot listen on ${where}: the port is in use`, remedy, {
      cause,
    });
  }
  const why = cause instanceof Error ? cause.message : String(cause);
  return new MetalbridgeError("ListenFailed", `cannot listen on ${where}: ${why}`, undefined, { cause });
}

/** /healthz, /readyz and /metrics, which every long-running part of ours answers. */
export function healthRoutes(parts: {
  /** Why the part is not ready, one line each; empty when it is ready. */
  readonly notReady: () => readonly string[];
  readonly metrics: RouteHandler;
}): ListenOptions["routes"] {
  return {
    "/healthz": () => ({ status: 200, body: "ok\n" }),
    "/readyz": readyRoute(parts.notReady),
    "/metrics": parts.metrics,
  };
}

/** 503 while there are reasons, one line each. */
export function readyRoute(notReady: () => readonly string[]): RouteHandler {
  return () => {
    const reasons = notReady();
    if (reasons.length === 0) return { status: 200, body: "ok\n" };
    return { status: 503, body: reasons.map((reason) => `${reason}\n`).join("") };
  };
}

function requestListener({
  routes,
  otherwise,
  tokenFile,
  isForPrograms,
}: Pick<ListenOptions, "routes" | "otherwise" | "tokenFile"> & {
  readonly isForPrograms: boolean;
}): RequestListener {
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<HttpResponse> => {
    if (isForPrograms && !isFromProgram(request.headers))
      return {
        status: 403,
        body: "only programs of this machine may ask, by the name localhost or its address\n",
      };
    const path = request.url?.split("?")[0] ?? "";
    const route = Object.hasOwn(routes, path) ? routes[path] : undefined;
    if (route === undefined && otherwise === undefined) return { status: 404, body: "not found\n" };
    if (route !== undefined && request.method !== "GET" && request.method !== "HEAD") {
      response.setHeader("allow", "GET, HEAD");
      return { status: 405, body: "only GET and HEAD are allowed\n" };
    }
    const refusal =
      tokenFile === undefined ? undefined : await rejectUnauthorized(request, response, tokenFile);
    return refusal ?? route?.() ?? otherwise?.(request) ?? { status: 404, body: "not found\n" };
  };
  const pipelines = new Pipelines();
  return (request, response) => {
    const { socket } = request;
    if (!pipelines.begin(socket, PIPELINED)) return;
    response.once("close", () => pipelines.end(socket));
    void answer(request, response)
      .catch((error: unknown): HttpResponse => ({ status: 500, body: `${String(error)}\n` }))
      .then((result) => send(response, result));
  };
}

function send(
  response: ServerResponse,
  { status, body, type = "text/plain; charset=utf-8" }: HttpResponse,
): void {
  const isText = typeof body === "string" || body instanceof Uint8Array;
  response.writeHead(status, { "content-type": isText ? type : "application/json" });
  response.end(isText ? body : JSON.stringify(body));
}

/** What whoever does not send the token in the file is answered; undefined for whoever does. */
export async function rejectUnauthorized(
  { headers }: IncomingMessage,
  response: ServerResponse,
  tokenFile: string,
): Promise<HttpResponse | undefined> {
  const sent = /^Bearer +(\S+)$/i.exec(headers.authorization ?? "")?.[1];
  const token = sent === undefined ? undefined : await readFile(tokenFile, "utf8").catch(() => "");
  if (token?.trim() === "") return { status: 503, body: "the token file cannot be read, or is empty\n" };
  if (sent !== undefined && token !== undefined && isSame(sent, token.trim())) return undefined;
  response.setHeader("www-authenticate", "Bearer");
  return { status: 401, body: "send the token: Authorization: Bearer …\n" };
}

/** Compares digests, which are of one length: the time it takes reveals nothing of the token. */
function isSame(left: string, right: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(left), digest(right));
}
