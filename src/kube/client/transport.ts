/** One HTTPS exchange with the API server: bounded, never throwing, with the response handed over as a stream. */
import type { ClientRequest, IncomingMessage } from "node:http";
import { request as httpsRequest, type RequestOptions } from "node:https";
import type { Credential } from "./credentials.ts";

export interface ApiExchange {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** With query; the base path of the server's address is put before it. */
  readonly path: string;
  readonly body?: string;
  readonly contentType?: string;
  /** Absent: application/json. */
  readonly accept?: string;
  readonly userAgent: string;
  readonly signal: AbortSignal;
  /** Asked at once, and again when there is a connection: a request waits for one while others hold them all. False: it is not sent. */
  readonly mayStart?: (() => boolean) | undefined;
  /** Protocol to change to; the caller owns the socket of the answer 101. */
  readonly upgrade?: string | undefined;
}

export type OpenedExchange =
  | { readonly ok: true; readonly response: IncomingMessage }
  | {
      readonly ok: false;
      readonly error: unknown;
      /** The server closed a kept socket at the moment we used it: nothing was answered, another socket will do. */
      readonly isStaleSocket: boolean;
    };

/** Sends and resolves with the response's head. `signal` ends the whole exchange, also its body or upgraded socket. */
export function openExchange(
  exchange: ApiExchange,
  credential: Credential,
  agent: NonNullable<RequestOptions["agent"]>,
): Promise<OpenedExchange> {
  const { mayStart } = exchange;
  if (mayStart?.() === false)
    return Promise.resolve({ ok: false, error: notLeading(), isStaleSocket: false });
  return new Promise((resolve) => {
    let request: ClientRequest;
    try {
      request = httpsRequest(optionsOf(exchange, credential, agent));
    } catch (error) {
      resolve({ ok: false, error, isStaleSocket: false });
      return;
    }
    request.on("error", (error) => resolve({ ok: false, error, isStaleSocket: isStale(request, error) }));
    request.on("response", (response) => resolve({ ok: true, response }));
    request.on("upgrade", (response, socket, head) => {
      if (exchange.upgrade === undefined) {
        socket.destroy();
        return resolve({
          ok: false,
          error: new Error("the server changed the protocol"),
          isStaleSocket: false,
        });
      }
      if (head.length > 0) socket.unshift(head);
      // Node has finished the request: its signal no longer ends the socket.
      exchange.signal.addEventListener("abort", () => socket.destroy(), { once: true });
      resolve({ ok: true, response });
    });
    if (mayStart === undefined) request.end(exchange.body);
    else
      whenConnected(request, () => {
        if (mayStart()) request.end(exchange.body);
        else request.destroy(notLeading());
      });
  });
}

function whenConnected(request: ClientRequest, then: () => void): void {
  request.once("socket", (socket) => {
    // Not declared by Node's types: true until the handshake has finished.
    const isNew = "secureConnecting" in socket && socket.secureConnecting === true;
    if (isNew) socket.once("secureConnect", then);
    else then();
  });
}

function notLeading(): Error {
  const message = "the Lease has run out: another controller may lead";
  return Object.assign(new Error(message), { code: "NotLeading" });
}

/** `code` of the error of a response that is longer than the caller accepts. */
export const CODE_TOO_LONG = "ResponseTooLong";

/** The rest of a response as text; rejects when it is cut. */
export async function readApiBody(response: IncomingMessage, limitBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > limitBytes) {
      const message = `the response is longer than ${limitBytes} bytes`;
      throw Object.assign(new Error(message), { code: CODE_TOO_LONG });
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function optionsOf(
  exchange: ApiExchange,
  credential: Credential,
  agent: RequestOptions["agent"],
): RequestOptions {
  const { server } = credential;
  const { servername, rejectUnauthorized } = credential.tls;
  const headers: Record<string, string> = {
    ...credential.headers,
    Accept: exchange.accept ?? "application/json",
    "User-Agent": exchange.userAgent,
  };
  if (exchange.upgrade !== undefined)
    Object.assign(headers, { Connection: "Upgrade", Upgrade: exchange.upgrade });
  if (exchange.body !== undefined) {
    headers["Content-Type"] = exchange.contentType ?? "application/json";
    headers["Content-Length"] = String(Buffer.byteLength(exchange.body));
  }
  return {
    host: server.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: server.port === "" ? 443 : Number(server.port),
    method: exchange.method,
    path: server.pathname.replace(/\/+$/, "") + exchange.path,
    headers,
    agent,
    signal: exchange.signal,
    servername,
    // With the key and no value, Node would ignore NODE_TLS_REJECT_UNAUTHORIZED.
    ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
  };
}

function isStale(request: ClientRequest, error: Error): boolean {
  const code = "code" in error ? error.code : undefined;
  return request.reusedSocket && (code === "ECONNRESET" || code === "EPIPE");
}
