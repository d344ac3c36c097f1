/** The small HTTP listener of all parts: its bounds, who may ask, and coded errors for a port that is in use. */

import { createHash, timingSafeEqual } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { Server as HttpsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { MetalbridgeError } from "../api/errors.ts";
import { errorMessage } from "../util/error-message.ts";
import { hostInUrl } from "../util/host-in-url.ts";
import type { Clock, Log } from "../util/ports.ts";
import { limitConnections } from "./connections.ts";
import { isFromProgram, isLoopback } from "./loopback.ts";
import {
  createRoutes,
  type HttpResponse,
  type RouteHandler,
  type RouteOptions,
  type Routes,
} from "./routes.ts";

export interface ListenOptions extends Pick<RouteOptions, "routes" | "otherwise"> {
  readonly address: string;
  /** 0 selects a free port. */
  readonly port: number;
  /** Closes the listener and its connections. */
  readonly signal: AbortSignal;
  /**
   * Every request must send the token in this file. The file is read for each request, so a new token applies immediately.
   * Absent: on loopback, only programs of this machine receive a response, and no web page does.
   */
  readonly tokenFile?: string;
}

/** Time limit for a request on a listener that other machines can reach, against slow clients. */
const GUARDED_MS = 10_000;
const CONNECTIONS = { total: 64, perAddress: 32 };
/** The connection of a client that does not read its response is closed after this. */
const SILENCE_MS = 60_000;

/** Resolves with the port once it listens. Rejects with `PortTaken` or `ListenFailed`. Does not keep the process alive. */
export async function listen(options: ListenOptions): Promise<number> {
  const { address, port, signal, tokenFile, routes, otherwise } = options;
  const limits = tokenFile === undefined ? {} : { requestTimeout: GUARDED_MS, headersTimeout: GUARDED_MS };
  const isForPrograms = tokenFile === undefined && (address === "localhost" || isLoopback(address));
  const admit: RouteOptions["admit"] = isForPrograms
    ? rejectOthers
    : tokenFile === undefined
      ? undefined
      : (request, response) => rejectUnauthorized(request, response, tokenFile);
  const server = createServer(limits, createRoutes({ routes, otherwise, admit }));
  limitConnections(server, CONNECTIONS);
  server.setTimeout(SILENCE_MS);
  return listenOn(server, { address, port, signal });
}

/** Starts to listen with another server. A connection that cannot be accepted does not end the process. */
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
  // For example, too many files are open. The client will connect again.
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
  /** The purpose of the listener, for the log. */
  readonly what: string;
  readonly retryMs?: number;
  readonly onListening?: ((port: number) => void) | undefined;
  /** Called with the error of each failed attempt. */
  readonly onFailed?: (error: Error) => void;
}

const LISTEN_RETRY_MS = 10_000;

/** Retries in the background, because the address (Wi-Fi, VPN) or the port may become available later. Logs each error once. */
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

/** Converts a failure to listen to a coded error. */
export function explainListenError(cause: unknown, address: string, port: number): MetalbridgeError {
  const endpoint = `${hostInUrl(address)}:${port}`;
  if ((cause as NodeJS.ErrnoException).code === "EADDRINUSE") {
    const remedy = {
      summary: "stop the program that uses the port, or choose another port",
      command: `lsof -i :${port}`,
    };
    const message = `cannot listen on ${endpoint}: the port is in use`;
    return new MetalbridgeError("PortTaken", message, remedy, { cause });
  }
  const reason = errorMessage(cause);
  return new MetalbridgeError("ListenFailed", `cannot listen on ${endpoint}: ${reason}`, undefined, {
    cause,
  });
}

/** The routes /healthz, /readyz and /metrics of every long-running part. */
export function healthRoutes(parts: {
  /** The reasons why the part is not ready, one line each; empty if it is ready. */
  readonly notReady: () => readonly string[];
  readonly metrics: RouteHandler;
}): Routes {
  return {
    "/healthz": () => ({ status: 200, body: "ok\n" }),
    "/readyz": readyRoute(parts.notReady),
    "/metrics": parts.metrics,
  };
}

/** Responds with 503 and the reasons, one line each, while there are any. */
export function readyRoute(notReady: () => readonly string[]): RouteHandler {
  return () => {
    const reasons = notReady();
    if (reasons.length === 0) return { status: 200, body: "ok\n" };
    return { status: 503, body: reasons.map((reason) => `${reason}\n`).join("") };
  };
}

function rejectOthers({ headers }: IncomingMessage): HttpResponse | undefined {
  const body = "only programs of this machine may connect, with the name localhost or its address\n";
  return isFromProgram(headers) ? undefined : { status: 403, body };
}

/** Returns the response to a request without the token in the file; undefined for an authorized request. */
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

/** Compares digests, which have equal length, so that the duration reveals nothing about the token. */
function isSame(left: string, right: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(left), digest(right));
}
