/** A connection to an API server: credentials and sockets, used by the typed client and the reflectors. */
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import {
  failureOfBadBody,
  failureOfNetwork,
  failureOfResponse,
  REASON_CREDENTIAL_UNAVAILABLE,
} from "../errors.ts";
import type { ApiFailure, ApiResult } from "../types.ts";
import { type Credential, type CredentialProvider, openCredentials } from "./credentials.ts";
import type { KubeconfigSource } from "./kubeconfig.ts";
import { createSocketPool, type SocketPool } from "./pool.ts";
import { type ApiExchange, openExchange, readApiBody } from "./transport.ts";

export interface ConnectOptions extends KubeconfigSource {
  readonly userAgent?: string;
  /** Called for every exchange with the verb (WATCH for a stream) and the status, which is 0 if there was no response. */
  readonly onResponse?: ((verb: string, status: number) => void) | undefined;
  /** Maximum number of concurrent requests, in addition to watches. Defaults to 8. */
  readonly maxRequests?: number;
}

export interface RawRequest {
  readonly method: ApiExchange["method"];
  readonly path: string;
  readonly body?: string;
  readonly contentType?: string;
  readonly accept?: string;
  readonly userAgent?: string | undefined;
  readonly mayStart?: ApiExchange["mayStart"];
  readonly upgrade?: ApiExchange["upgrade"];
  /** Timeout of the complete exchange; for a stream, of the response headers. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** A stream that ends soon: counts in `maxRequests`. */
  readonly isShort?: boolean;
  /** Answers that are returned instead of a failure. Defaults to 2xx and 101. */
  readonly acceptsStatus?: ((status: number) => boolean) | undefined;
  /** A longer body is a failure with the reason `CODE_TOO_LONG`. Defaults to 256 MiB. */
  readonly maxBodyBytes?: number | undefined;
}

export interface KubeConnection {
  /** URL of the server, for messages. */
  readonly server: string;
  /** Returns the body of a 2xx response. Never rejects. */
  readonly request: (request: RawRequest) => Promise<ApiResult<string>>;
  /** Returns a 2xx response, or another that `acceptsStatus`, as soon as its headers have arrived. Never rejects. */
  readonly stream: (
    request: RawRequest & { readonly signal: AbortSignal },
  ) => Promise<ApiResult<IncomingMessage>>;
  /** Returns a connection through the API server's proxy, after the server behind it has switched to the protocol `upgrade`. Never rejects. */
  readonly upgrade: (
    request: RawRequest & { readonly upgrade: string; readonly signal: AbortSignal },
  ) => Promise<ApiResult<Duplex>>;
  /** Closes idle sockets, which are dead after a sleep or a change of the network. */
  readonly dropIdle: () => void;
  /** Number of idle sockets that were found to be dead when they were used, and were replaced. */
  readonly replaced: () => number;
  /** Reloads the kubeconfig after a change. False if it cannot be read. */
  readonly reload: () => boolean;
  /** Time in ms by which the server's clock was ahead of this machine's in its last response, with a precision of one second. */
  readonly serverAheadMs: () => number | undefined;
  /** Closes all sockets. */
  readonly close: () => void;
}

const MAX_BODY_BYTES = 256 * 1_024 * 1_024;
const MAX_ERROR_BODY_BYTES = 1_024 * 1_024;
const TCP_KEEPALIVE_MS = 15_000;
const DEFAULT_USER_AGENT = "metalbridge";
const DEFAULT_MAX_REQUESTS = 8;

type Use = "request" | "watch";
type Head =
  | { readonly ok: true; readonly response: IncomingMessage }
  | { readonly ok: false; readonly failure: ApiFailure; readonly generation: number };

/** Loads the kubeconfig without opening a socket. Rejects with MetalbridgeError if the kubeconfig is invalid. */
export async function connect(options: ConnectOptions = {}): Promise<KubeConnection> {
  const connection = new Connection(openCredentials(options), options);
  return {
    get server() {
      return connection.server;
    },
    request: (request) => connection.request(request),
    stream: (request) => connection.stream(request),
    upgrade: (request) => connection.upgrade(request),
    dropIdle: () => connection.dropIdle(),
    replaced: () => connection.replaced,
    reload: () => connection.reload(),
    serverAheadMs: () => connection.serverAheadMs,
    close: () => connection.close(),
  };
}

class Connection {
  replaced = 0;
  serverAheadMs: number | undefined;
  readonly #credentials: CredentialProvider;
  readonly #userAgent: string;
  readonly #onResponse: NonNullable<ConnectOptions["onResponse"]>;
  readonly #pool: SocketPool;

  constructor(
    credentials: CredentialProvider,
    { userAgent = DEFAULT_USER_AGENT, onResponse, maxRequests = DEFAULT_MAX_REQUESTS }: ConnectOptions,
  ) {
    this.#credentials = credentials;
    this.#pool = createSocketPool(maxRequests);
    this.#userAgent = userAgent;
    this.#onResponse = onResponse ?? (() => undefined);
  }

  get server(): string {
    return this.#credentials.server();
  }

  async request(request: RawRequest): Promise<ApiResult<string>> {
    const deadline = startDeadline(request.timeoutMs, request.signal);
    try {
      const head = await this.#send(request, "request", deadline);
      if (!head.ok) return { ok: false, error: head.failure };
      return { ok: true, value: await readApiBody(head.response, request.maxBodyBytes ?? MAX_BODY_BYTES) };
    } catch (error) {
      return { ok: false, error: this.#networkFailure(error, deadline) };
    } finally {
      deadline.release();
    }
  }

  async stream(request: RawRequest & { signal: AbortSignal }): Promise<ApiResult<IncomingMessage>> {
    const deadline = startDeadline(request.timeoutMs, request.signal);
    const head = await this.#send(request, request.isShort === true ? "request" : "watch", deadline);
    if (!head.ok) {
      deadline.release();
      return { ok: false, error: head.failure };
    }
    deadline.lift();
    // Node's agent enables keepalive on idle TLS sockets only, but a watch in use can be quiet for minutes.
    head.response.socket.setKeepAlive(true, TCP_KEEPALIVE_MS);
    // The response of an upgrade never emits close.
    const stream = request.upgrade === undefined ? head.response : head.response.socket;
    stream.once("close", deadline.release);
    return { ok: true, value: head.response };
  }

  async upgrade(request: RawRequest & { upgrade: string; signal: AbortSignal }): Promise<ApiResult<Duplex>> {
    const response = await this.stream(request);
    if (!response.ok) return response;
    const { statusCode, socket } = response.value;
    if (statusCode === 101) return { ok: true, value: socket };
    response.value.destroy();
    return { ok: false, error: failureOfBadBody(`status ${statusCode} in place of ${request.upgrade}`) };
  }

  dropIdle(): void {
    this.#pool.dropIdle();
  }

  reload(): boolean {
    return this.#credentials.reload();
  }

  close(): void {
    this.#pool.close();
  }

  /** Retries once with a reloaded credential after a 401, or at another server if the kubeconfig names one now. */
  async #send(request: RawRequest, use: Use, deadline: Deadline): Promise<Head> {
    const first = await this.#sendOnce(request, use, deadline);
    if (first.ok) return first;
    if (first.failure.kind === "unreachable") {
      const mayRepeat =
        this.#credentials.reloadIfMoved() && !deadline.hasExpired() && request.method !== "POST";
      return mayRepeat ? this.#sendOnce(request, use, deadline) : first;
    }
    if (first.failure.kind !== "unauthorized" || deadline.hasExpired()) return first;
    return this.#credentials.reloadSince(first.generation) ? this.#sendOnce(request, use, deadline) : first;
  }

  async #sendOnce(request: RawRequest, use: Use, deadline: Deadline): Promise<Head> {
    const generation = this.#credentials.generation();
    let credential: Credential;
    let agent: ReturnType<SocketPool["agentFor"]>;
    try {
      credential = await orAborted(this.#credentials.current(), deadline.signal);
      agent = this.#pool.agentFor(credential, use); // throws on a certificate that is being rewritten
    } catch (error) {
      return { ok: false, failure: credentialFailure(error), generation };
    }
    const { signal } = deadline;
    const exchange: ApiExchange = { ...request, userAgent: request.userAgent ?? this.#userAgent, signal };
    let opened = await openExchange(exchange, credential, agent);
    // A POST is not repeated, because the server may have processed it.
    if (!opened.ok && opened.isStaleSocket && request.method !== "POST" && !signal.aborted) {
      this.#pool.dropIdle();
      this.replaced += 1;
      opened = await openExchange(exchange, credential, agent);
    }
    const verb = use === "watch" ? "WATCH" : request.method;
    this.#onResponse(verb, opened.ok ? (opened.response.statusCode ?? 0) : 0);
    if (!opened.ok) return { ok: false, failure: this.#networkFailure(opened.error, deadline), generation };
    return this.#headOf(opened.response, request, { generation, deadline });
  }

  async #headOf(
    response: IncomingMessage,
    { acceptsStatus = isSuccess }: RawRequest,
    { generation, deadline }: { readonly generation: number; readonly deadline: Deadline },
  ): Promise<Head> {
    const status = response.statusCode ?? 0;
    const serverMs = Date.parse(response.headers.date ?? "");
    if (!Number.isNaN(serverMs)) this.serverAheadMs = serverMs - Date.now();
    if (acceptsStatus(status)) return { ok: true, response };
    try {
      const body = await readApiBody(response, MAX_ERROR_BODY_BYTES);
      return { ok: false, failure: failureOfResponse(status, response.headers, body), generation };
    } catch (error) {
      return { ok: false, failure: this.#networkFailure(error, deadline), generation };
    }
  }

  #networkFailure(error: unknown, deadline: Deadline): ApiFailure {
    if (!deadline.hasExpired()) return failureOfNetwork(error, this.server);
    this.#pool.dropIdle();
    const message = `${this.server}: ${deadline.signal.reason instanceof Error ? deadline.signal.reason.message : "timeout"}`;
    return { kind: "unreachable", status: 0, reason: "Timeout", message };
  }
}

function isSuccess(status: number): boolean {
  return (status >= 200 && status < 300) || status === 101;
}

/** Stops waiting when the call is aborted. A credential plugin that takes longer than the call serves the next call. */
function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    if (signal.aborted) return stop();
    signal.addEventListener("abort", stop, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
  });
}

function credentialFailure(error: unknown): ApiFailure {
  const message = error instanceof Error ? error.message : String(error);
  return {
    kind: "unauthorized",
    status: 0,
    reason: REASON_CREDENTIAL_UNAVAILABLE,
    message: `no credential: ${message}`,
  };
}

/** The abort signal of an exchange, which follows the caller's signal and a timeout, and leaves no listener or timer behind. */
interface Deadline {
  readonly signal: AbortSignal;
  readonly hasExpired: () => boolean;
  /** Stops the timer, so that only the caller's signal still aborts. */
  readonly lift: () => void;
  readonly release: () => void;
}

/** Does not use AbortSignal.any, because a signal that lives as long as the process keeps references to its results. */
function startDeadline(timeoutMs: number, outer: AbortSignal | undefined): Deadline {
  const controller = new AbortController();
  let hasExpired = false;
  const timer = setTimeout(() => {
    hasExpired = true;
    controller.abort(new Error(`no response within ${timeoutMs} ms`));
  }, timeoutMs);
  const follow = () => controller.abort(outer?.reason);
  if (outer?.aborted === true) follow();
  else outer?.addEventListener("abort", follow, { once: true });
  return {
    signal: controller.signal,
    hasExpired: () => hasExpired,
    lift: () => clearTimeout(timer),
    release: () => {
      clearTimeout(timer);
      outer?.removeEventListener("abort", follow);
    },
  };
}
