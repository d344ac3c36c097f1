/** Serves engine logs and doctor's report to users of the cluster who have no login on this host. Loaded only if remote access is on. */

import { existsSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { createServer } from "node:https";
import { join } from "node:path";
import type { Duplex } from "node:stream";
import {
  DOCTOR_ACCOUNT,
  LOGS_ACCOUNT,
  type LogEnd,
  TRAILER_END,
  TRAILER_LOSSES,
} from "../../src/api/access/remote.ts";
import { NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { limitConnections } from "../../src/http/connections.ts";
import { listenOn } from "../../src/http/listener.ts";
import {
  createRoutes,
  type HttpResponse,
  type RoutedRequest,
  type RouteHandler,
} from "../../src/http/routes.ts";
import { waitMs } from "../../src/kube/wait.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { ENGINES_FOLDER } from "../instances/instances.ts";
import type { PeerIdentity } from "../peers/identity.ts";
import type { ReplicaSnapshot } from "../replicas/context/ports.ts";
import { createRateLimiter, type RateLimiter } from "../store/download/host-limits.ts";
import type { AuthorizeToken, Requester } from "./authorize.ts";
import { type LogRange, LogReader } from "./log-reader.ts";

/** Doctor's report as JSON; rejects if it printed none. */
export type RunDoctor = (signal: AbortSignal) => Promise<string>;

export interface RemoteServerOptions {
  readonly identity: PeerIdentity;
  readonly address: string;
  readonly port: number;
  readonly stateDir: string;
  /** Absent: logs are off. */
  readonly replicas: (() => readonly Pick<ReplicaSnapshot, "uid" | "namespace">[]) | undefined;
  /** Absent: doctor is off. */
  readonly doctor: RunDoctor | undefined;
  readonly authorize: AuthorizeToken;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly limits?: typeof REMOTE_LIMITS;
}

export const REMOTE_LIMITS = {
  connections: { total: 64, perAddress: 48 },
  /** Maximum number of logs that are sent at once: in total, and for one namespace. */
  readers: 8,
  readersPerNamespace: 4,
  /** Maximum rate of all logs together. */
  bytesPerSecond: 8 << 20,
  /** A report is reused for this long. */
  reportMs: 10_000,
  log: { maxBytes: 512 << 20, maxMs: 3_600_000, stallMs: 30_000 } satisfies LogLimits,
};

const HANDSHAKE_MS = 5_000;
const REQUEST_MS = 10_000;
const MAX_HEADER_BYTES = 8_192;
const KEEPALIVE_MS = 15_000;

/** Answers a request of an account. Undefined: it has sent the response. */
type Handle = (
  routed: RoutedRequest,
  account: Extract<Requester, { readonly at: "account" }>,
) => Promise<HttpResponse | undefined>;

/** Resolves with the port once it listens; rejects with `PortTaken` or `ListenFailed`. Does not keep the process alive. */
export async function startRemoteServer(options: RemoteServerOptions): Promise<number> {
  const { identity, clock, log, limits = REMOTE_LIMITS } = options;
  const { key, cert } = identity;
  const handle = createRoutes({
    routes: {
      "GET /v1/logs/*":
        options.replicas === undefined ? off("logs") : forAccounts(createLogs(options), options),
      "GET /v1/doctor":
        options.doctor === undefined ? off("doctor") : forAccounts(createDoctor(options), options),
    },
    refuse,
    onError: (err) => {
      log.warn({ err }, "cannot answer a remote request");
      return refuse(500, "the agent could not answer; see its log");
    },
    onResponse: (response) => {
      // An unread answer occupies memory.
      if (response.closed) return;
      const cancel = clock.after(limits.log.stallMs, () => response.destroy());
      response.once("close", cancel);
    },
  });
  const server = createServer(
    {
      key,
      cert,
      minVersion: "TLSv1.3",
      handshakeTimeout: HANDSHAKE_MS,
      headersTimeout: REQUEST_MS,
      requestTimeout: REQUEST_MS,
      connectionsCheckingInterval: 1_000,
      maxHeaderSize: MAX_HEADER_BYTES,
      requireHostHeader: false,
    },
    (request, response) => {
      request.socket.setKeepAlive(true, KEEPALIVE_MS);
      // `maxRequestsPerSocket` alone leaves the connection open until the keep-alive time-out.
      response.setHeader("connection", "close");
      handle(request, response);
    },
  );
  // One request per connection: each has its own token.
  server.maxRequestsPerSocket = 1;
  limitConnections(server, limits.connections);
  for (const event of ["tlsClientError", "clientError"])
    server.on(event, (_, socket: Duplex) => socket.destroy());
  return listenOn(server, options);
}

/** Answers requests with a token that the API server accepts for this host. */
function forAccounts(handle: Handle, { authorize }: RemoteServerOptions): RouteHandler {
  return async (routed) => {
    const { request, response } = routed;
    const token = /^Bearer (\S+)$/.exec(request.headers.authorization ?? "")?.[1];
    if (token === undefined) return refuse(401, "send a token: Authorization: Bearer …");
    const requester = await authorize(token);
    if (requester.at === "unknown") return refuse(503, requester.why);
    if (requester.at === "stranger")
      return refuse(401, "the API server does not accept this token for this host");
    // After `close` was emitted, a log would occupy one of the reader slots until its maximum duration.
    if (response.closed) return undefined;
    return handle(routed, requester);
  };
}

function off(what: "logs" | "doctor"): RouteHandler {
  return () => refuse(404, `remoteAccess.${what} is off on this host`);
}

/** A replica of another namespace gets the same answer as one that does not exist. */
function createLogs({
  replicas,
  stateDir,
  clock,
  signal,
  limits = REMOTE_LIMITS,
}: RemoteServerOptions): Handle {
  const pace = createRateLimiter(limits.bytesPerSecond, clock);
  const reading: string[] = [];
  return async ({ parameters: [uid = ""], query, response }, { namespace, name }) => {
    const exists = replicas?.().some((one) => one.uid === uid && one.namespace === namespace) === true;
    if (name !== LOGS_ACCOUNT || !exists)
      return refuse(
        404,
        `this host has no replica in the namespace of the token's account; use a token of ${LOGS_ACCOUNT} in the replica's namespace`,
      );
    const range = rangeOf(query);
    if (range === undefined) return refuse(400, "tail must be a number of lines");
    const own = reading.filter((one) => one === namespace).length;
    if (reading.length >= limits.readers || own >= limits.readersPerNamespace)
      return refuse(429, "too many logs of this host are being read; try again later");
    reading.push(namespace);
    const closed = new AbortController();
    response.once("close", () => closed.abort());
    try {
      await sendLog(response, {
        range,
        pace,
        clock,
        limits: limits.log,
        dir: join(stateDir, ENGINES_FOLDER, uid),
        follow: query.has("follow"),
        signal: AbortSignal.any([signal, closed.signal]),
      });
    } finally {
      reading.splice(reading.indexOf(namespace), 1);
    }
    return undefined;
  };
}

function rangeOf(query: URLSearchParams): LogRange | undefined {
  const tail = query.get("tail");
  if (tail === null) return query.has("all") ? "all" : "current";
  return /^\d{1,9}$/.test(tail) ? { lines: Number(tail) } : undefined;
}

/** One run at a time: concurrent requests share it. */
function createDoctor({ doctor, clock, signal, limits = REMOTE_LIMITS }: RemoteServerOptions): Handle {
  let last: { readonly atMs: number; readonly report: Promise<string> } | undefined;
  const run = (): Promise<string> => {
    const now = clock.monotonicMs();
    if (last !== undefined && now - last.atMs < limits.reportMs) return last.report;
    const report = doctor?.(signal) ?? Promise.reject(new Error("doctor is off"));
    // The age counts from the end of the run, so that no second run starts during a long one.
    last = { atMs: Number.POSITIVE_INFINITY, report };
    const done = (): void => {
      last = { atMs: clock.monotonicMs(), report };
    };
    report.then(done, done);
    return report;
  };
  return async (_, { namespace, name }) => {
    if (namespace !== NAMESPACE_SYSTEM || name !== DOCTOR_ACCOUNT)
      return refuse(403, `the token does not belong to ${NAMESPACE_SYSTEM}/${DOCTOR_ACCOUNT}`);
    return { status: 200, body: await run(), type: "application/json" };
  };
}

function refuse(status: number, message: string): HttpResponse {
  return { status, body: { message } };
}

interface LogLimits {
  /** Maximum size of one answer. */
  readonly maxBytes: number;
  /** Maximum duration of one answer; a client that follows a log sends another request. */
  readonly maxMs: number;
  /** A client that reads nothing for this long is disconnected. */
  readonly stallMs: number;
}

interface SentLog {
  /** The engine's folder; it may not exist yet. */
  readonly dir: string;
  readonly range: LogRange;
  readonly follow: boolean;
  readonly limits: LogLimits;
  readonly pace: RateLimiter;
  readonly clock: Clock;
  /** Aborted when the client disconnects or the agent stops. */
  readonly signal: AbortSignal;
}

/** Maximum delay of a new line. */
const POLL_MS = 500;

/**
 * Sends a replica's log to a client on another machine, no faster than the client and the limits of this host allow, and ends the
 * response; the trailers have the reason for the end.
 */
async function sendLog(response: ServerResponse, sent: SentLog): Promise<void> {
  response.writeHead(200, {
    "content-type": "text/plain; charset=utf-8",
    trailer: `${TRAILER_END}, ${TRAILER_LOSSES}`,
  });
  response.flushHeaders();
  const reader = await LogReader.open(sent.dir, sent.range, sent.signal);
  const end = await sendUntilEnd(response, reader, sent);
  if (end === "cut") return void response.destroy();
  response.addTrailers({ [TRAILER_END]: end, [TRAILER_LOSSES]: String(reader.losses) });
  response.end();
}

/** "cut": the client has disconnected, or is too slow. */
async function sendUntilEnd(
  response: ServerResponse,
  reader: LogReader,
  sent: SentLog,
): Promise<LogEnd | "cut"> {
  const { dir, follow, limits, clock, signal } = sent;
  const untilMs = clock.monotonicMs() + limits.maxMs;
  const existed = existsSync(dir);
  const budget = { bytes: limits.maxBytes, untilMs };
  for (;;) {
    const stopped = await sendNew(response, reader, sent, budget);
    if (stopped !== undefined) return stopped;
    if (!follow && !reader.isWaiting) return "read";
    if (existed && !existsSync(dir)) return "left";
    if (clock.monotonicMs() >= untilMs) return "time";
    await waitMs(clock, POLL_MS, signal);
    if (signal.aborted) return "cut";
  }
}

/** Sends everything that was appended since the last call. */
async function sendNew(
  response: ServerResponse,
  reader: LogReader,
  { pace, clock, limits, signal }: SentLog,
  budget: { bytes: number; readonly untilMs: number },
): Promise<"size" | "time" | "cut" | undefined> {
  for (const bytes of reader.read()) {
    budget.bytes -= bytes.length;
    if (budget.bytes < 0) return "size";
    if (clock.monotonicMs() >= budget.untilMs) return "time";
    await pace(bytes.length, signal)?.catch(() => undefined);
    if (signal.aborted || !(await write(response, bytes, clock, limits.stallMs))) return "cut";
  }
  return undefined;
}

/** False if the client has disconnected, or reads nothing for `stallMs`. */
function write(response: ServerResponse, bytes: Buffer, clock: Clock, stallMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    if (response.destroyed) return resolve(false);
    const finish = (isWritten: boolean): void => {
      cancel();
      response.off("drain", onDrain);
      response.off("close", onClose);
      resolve(isWritten);
    };
    const onDrain = (): void => finish(true);
    const onClose = (): void => finish(false);
    const cancel = clock.after(stallMs, onClose);
    response.once("drain", onDrain);
    response.once("close", onClose);
    if (response.write(bytes)) finish(true);
  });
}
