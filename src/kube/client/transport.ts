/** An HTTPS exchange with the API server, which never throws and returns the response as a stream. */
import type { ClientRequest, IncomingMessage } from "node:http";
import { request as httpsRequest, type RequestOptions } from "node:https";
import type { Credential } from "./credentials.ts";

export interface ApiExchange {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path with query, relative to the base path of the server's URL. */
  readonly path: string;
  readonly body?: string;
  readonly contentType?: string;
  /** Defaults to application/json. */
  readonly accept?: string;
  readonly userAgent: string;
  readonly signal: AbortSignal;
  /** Called immediately, and again once there is a connection, because a request may wait for one. If false, nothing is sent. */
  readonly mayStart?: (() => boolean) | undefined;
  /** Protocol to switch to; the caller owns the socket of a 101 response. */
  readonly upgrade?: string | undefined;
}

export type OpenedExchange =
  | { readonly ok: true; readonly response: IncomingMessage }
  | {
      readonly ok: false;
      readonly error: unknown;
      /** The server closed a kept-alive socket when it was used: there was no response, and another socket will work. */
      readonly isStaleSocket: boolean;
    };

/** Resolves with the head of the response. `signal` aborts the complete exchange, including its body or upgraded socket. */
export function openExchange(
  exchange: ApiExchange,
  credential: Credential,
  agent: NonNullable<RequestOptions["agent"]>,
): Promise<OpenedExchange> {
  const { mayStart } = exchange;
  return new Promise((resolve) => {
    const fail = (error: unknown) => resolve({ ok: false, error, isStaleSocket: false });
    if (mayStart?.() === false) return fail(notLeading());
    let request: ClientRequest;
    try {
      request = httpsRequest(optionsOf(exchange, credential, agent));
    } catch (error) {
      return fail(error);
    }
    request.on("error", (error) => resolve({ ok: false, error, isStaleSocket: isStale(request, error) }));
    request.on("response", (response) => resolve({ ok: true, response }));
    request.on("upgrade", (response, socket, head) => {
      if (exchange.upgrade === undefined) {
        socket.destroy();
        return fail(new Error("the server changed the protocol"));
      }
      if (head.length > 0) socket.unshift(head);
      // Node has finished the request, so its signal no longer closes the socket.
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
    // Not declared in Node's types: true until the handshake has finished.
    const isNew = "secureConnecting" in socket && socket.secureConnecting === true;
    if (isNew) socket.once("secureConnect", then);
    else then();
  });
}

function notLeading(): Error {
  const message = "the Lease has expired: another controller may lead";
  return Object.assign(new Error(message), { code: "NotLeading" });
}

/** Error code of a response that is longer than the caller accepts. */
export const CODE_TOO_LONG = "ResponseTooLong";

/** Reads the body as text; rejects if it is interrupted. */
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
    // If the key existed without a value, Node would ignore NODE_TLS_REJECT_UNAUTHORIZED.
    ...(rejectUnauthorized === undefined ? {} : { rejectUnauthorized }),
  };
}

function isStale(request: ClientRequest, error: Error): boolean {
  const code = "code" in error ? error.code : undefined;
  return request.reusedSocket && (code === "ECONNRESET" || code === "EPIPE");
}
