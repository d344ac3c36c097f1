/** A connection to one API server: credentials and sockets, below the typed client and the reflectors. */
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
import { type Deadline, startDeadline } from "./deadline.ts";
import type { KubeconfigSource } from "./kubeconfig.ts";
import { createSocketPool, type SocketPool } from "./pool.ts";
import { type ApiExchange, openExchange, readApiBody } from "./transport.ts";

export interface ConnectOptions extends KubeconfigSource {
  readonly userAgent?: string;
  /** Called for every exchange: the verb, WATCH for a stream, and the status; 0 if no answer came. */
  readonly onAnswer?: ((verb: string, status: number) => void) | undefined;
  /** At the same time, beside watches; 8 unless given. */
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
  /** For the whole exchange; of a stream, for the time to its head. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** A longer body is a failure with the reason `CODE_TOO_LONG`; 256 MiB unless given. */
  readonly maxBodyBytes?: number | undefined;
}

export interface KubeConnection {
  /** Where it leads, for messages. */
  readonly server: string;
  /** The body of a 2xx response. Never rejects. */
  readonly request: (request: RawRequest) => Promise<ApiResult<string>>;
  /** A 2xx response whose body is still to come. Never rejects. */
  readonly stream: (
    request: RawRequest & { readonly signal: AbortSignal },
  ) => Promise<ApiResult<IncomingMessage>>;
  /** A connection through the API server's proxy, after the server behind it has changed to the protocol of `upgrade`. Never rejects. */
  readonly upgrade: (
    request: RawRequest & { readonly upgrade: string; readonly signal: AbortSignal },
  ) => Promise<ApiResult<Duplex>>;
  /** Ends the sockets that nothing uses now: after a sleep or in another network they lead nowhere. */
  readonly dropIdle: () => void;
  /** How many idle sockets turned out to be dead when they were used, and were replaced. */
  readonly replaced: () => number;
  /** The kubeconfig has changed. False if it cannot be read now. */
  readonly reload: () => boolean;
  /** How far the server's clock was ahead of this machine's in its last answer, in ms; to the second. */
  readonly serverAheadMs: () => number | undefined;
  /** Ends all sockets. */
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

/** Loads the kubeconfig (rejects with MetalbridgeError where it cannot work); opens no socket yet. */
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
  readonly #onAnswer: NonNullable<ConnectOptions["onAnswer"]>;
  readonly #pool: SocketPool;

  constructor(
    credentials: CredentialProvider,
    { userAgent = DEFAULT_USER_AGENT, onAnswer, maxRequests = DEFAULT_MAX_REQUESTS }: ConnectOptions,
  ) {
    this.#credentials = credentials;
    this.#pool = createSocketPool(maxRequests);
    this.#userAgent = userAgent;
    this.#onAnswer = onAnswer ?? (() => undefined);
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
    const head = await this.#send(request, "watch", deadline);
    if (!head.ok) {
      deadline.release();
      return { ok: false, error: head.failure };
    }
    deadline.lift();
    // The agent sets it only on idle TLS sockets; a watch is quiet for minutes while in use.
    head.response.socket.setKeepAlive(true, TCP_KEEPALIVE_MS);
    // The response of an upgrade never closes.
    const lasting = request.upgrade === undefined ? head.response : head.response.socket;
    lasting.once("close", deadline.release);
    return { ok: true, value: head.response };
  }

  async upgrade(request: RawRequest & { upgrade: string; signal: AbortSignal }): Promise<ApiResult<Duplex>> {
    const answer = await this.stream(request);
    if (!answer.ok) return answer;
    const { statusCode, socket } = answer.value;
    if (statusCode === 101) return { ok: true, value: socket };
    answer.value.destroy();
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

  /** Once more with a reloaded credential after a 401, at another server where the file leads there now, and on another socket after a stale one. */
  async #send(request: RawRequest, use: Use, deadline: Deadline): Promise<Head> {
    const first = await this.#sendOnce(request, use, deadline);
    if (first.ok) return first;
    if (first.failure.kind === "unreachable") {
      const mayRepeat = this.#credentials.reloadIfMoved() && !deadline.isOver() && request.method !== "POST";
      return mayRepeat ? this.#sendOnce(request, use, deadline) : first;
    }
    if (first.failure.kind !== "unauthorized" || deadline.isOver()) return first;
    return this.#credentials.reloadSince(first.generation) ? this.#sendOnce(request, use, deadline) : first;
  }

  async #sendOnce(request: RawRequest, use: Use, deadline: Deadline): Promise<Head> {
    const generation = this.#credentials.generation();
    let credential: Credential;
    let agent: ReturnType<SocketPool["agentFor"]>;
    try {
      credential = await orAborted(this.#credentials.current(), deadline.signal);
      agent = this.#pool.agentFor(credential, use); // throws on a certificate that is being rewritten right now
    } catch (error) {
      return { ok: false, failure: credentialFailure(error), generation };
    }
    const { signal } = deadline;
    const exchange: ApiExchange = { ...request, userAgent: request.userAgent ?? this.#userAgent, signal };
    let opened = await openExchange(exchange, credential, agent);
    // A POST is not repeated: it may have been carried out.
    if (!opened.ok && opened.isStaleSocket && request.method !== "POST" && !signal.aborted) {
      this.#pool.dropIdle();
      this.replaced += 1;
      opened = await openExchange(exchange, credential, agent);
    }
    const verb = use === "watch" ? "WATCH" : request.method;
    this.#onAnswer(verb, opened.ok ? (opened.response.statusCode ?? 0) : 0);
    if (!opened.ok) return { ok: false, failure: this.#networkFailure(opened.error, deadline), generation };
    return this.#headOf(opened.response, generation, deadline);
  }

  async #headOf(response: IncomingMessage, generation: number, deadline: Deadline): Promise<Head> {
    const status = response.statusCode ?? 0;
    const serverMs = Date.parse(response.headers.date ?? "");
    if (!Number.isNaN(serverMs)) this.serverAheadMs = serverMs - Date.now();
    if ((status >= 200 && status < 300) || status === 101) return { ok: true, response };
    try {
      const body = await readApiBody(response, MAX_ERROR_BODY_BYTES);
      return { ok: false, failure: failureOfResponse(status, response.headers, body), generation };
    } catch (error) {
      return { ok: false, failure: this.#networkFailure(error, deadline), generation };
    }
  }

  #networkFailure(error: unknown, deadline: Deadline): ApiFailure {
    if (!deadline.isOver()) return failureOfNetwork(error, this.server);
    this.#pool.dropIdle();
    const message = `${this.server}: ${deadline.signal.reason instanceof Error ? deadline.signal.reason.message : "too late"}`;
    return { kind: "unreachable", status: 0, reason: "Timeout", message };
  }
}

/** A plugin may take longer than a call has; its answer then serves the next call. */
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
