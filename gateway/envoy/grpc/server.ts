/**
 * Serves the endpoints of all clusters to Envoy, over gRPC on a Unix socket, and learns from it which requests are answered.
 * Endpoints are not files: Envoy needs an inotify instance per watched file, and a Linux user has 128. While no gateway runs,
 * Envoy keeps its endpoints, and drops the messages about requests.
 */
import { once } from "node:events";
import { rm } from "node:fs/promises";
import { createServer, type Http2Session, type ServerHttp2Stream } from "node:http2";
import type { Log } from "../../../src/util/ports.ts";
import type { EnvoyCluster, OnAccepted, OnAnswered } from "../types.ts";
import { decodeAnswered } from "./answered.ts";
import { decodeRequest, ENDPOINTS_TYPE, encodeResponse } from "./discovery.ts";
import { type Assignment, Editions } from "./editions.ts";
import { frame, readFrames } from "./wire.ts";

const DISCOVERY = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
const ACCESS_LOG = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs";

export interface EndpointServer {
  /** Sends changed endpoints to every Envoy that subscribed to them. */
  readonly update: (clusters: readonly EnvoyCluster[]) => void;
}

export interface EndpointServerOptions {
  readonly socket: string;
  readonly onAccepted: OnAccepted;
  readonly onAnswered: OnAnswered;
  /** Called when the last Envoy has closed its stream, which it does only when it exits. */
  readonly onExited: () => void;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Resolves once it listens. Closes with the signal. */
export async function serveEndpoints({
  socket,
  onAccepted,
  onAnswered,
  onExited,
  log,
  signal,
}: EndpointServerOptions): Promise<EndpointServer> {
  let assignments: ReadonlyMap<string, Assignment> = new Map();
  let names: ReadonlySet<string> = new Set();
  const editions = new Editions();
  const streams = new Set<Subscription>();
  const sessions = new Set<Http2Session>();
  await rm(socket, { force: true });
  const server = createServer();
  server.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
    session.on("error", () => {});
  });
  server.on("stream", (stream, headers) => {
    if (headers[":path"] === ACCESS_LOG) return readAnswered(stream, onAnswered);
    if (headers[":path"] !== DISCOVERY) return refuse(stream);
    const subscription: Subscription = new Subscription(
      stream,
      () => assignments,
      log,
      ({ name, cluster, addresses }) => {
        // An Envoy that is being replaced gets no new requests.
        if ([...streams].at(-1) === subscription && subscription.isNewest(cluster, editions.numberOf(name)))
          onAccepted(cluster, addresses);
      },
    );
    streams.add(subscription);
    stream.once("close", () => {
      streams.delete(subscription);
      if (streams.size === 0 && !signal.aborted) onExited();
    });
  });
  server.listen(socket);
  await once(server, "listening");
  // For example, too many open files. Envoy reconnects.
  server.on("error", (err) => log.warn({ err }, "the endpoint server cannot accept a connection"));
  const close = (): void => {
    server.close();
    for (const session of sessions) session.destroy();
  };
  signal.addEventListener("abort", close, { once: true });
  if (signal.aborted) close();
  return {
    update: (clusters) => {
      const before = names;
      names = new Set(clusters.map(({ name }) => name));
      const isRequested = (name: string) => [...streams].some((one) => one.requests(name));
      assignments = editions.update(clusters, isRequested);
      for (const name of before) if (!names.has(name)) onAccepted(name, undefined);
      for (const subscription of streams) subscription.sendChanges();
    },
  };
}

/** Each worker thread of Envoy has a stream. */
function readAnswered(stream: ServerHttp2Stream, onAnswered: OnAnswered): void {
  readFrames(stream, (message) => {
    for (const { id, status } of decodeAnswered(message)) onAnswered(id, status);
  });
}

function refuse(stream: ServerHttp2Stream): void {
  const unimplemented = { ":status": 200, "content-type": "application/grpc", "grpc-status": "12" };
  stream.respond(unimplemented, { endStream: true });
}

/** The stream of one Envoy, which acknowledges each response by its nonce. Any other request changes the subscribed names. */
class Subscription {
  readonly #stream: ServerHttp2Stream;
  readonly #assignments: () => ReadonlyMap<string, Assignment>;
  readonly #log: Log;
  readonly #onAccepted: (assignment: Assignment) => void;
  #names: ReadonlySet<string> = new Set();
  #sent = new Map<string, Assignment>();
  /** Assignments that Envoy has not acknowledged yet, by nonce. */
  readonly #unacknowledged = new Map<string, readonly Assignment[]>();
  /** The number of the newest edition that Envoy has accepted, by cluster. */
  readonly #editions = new Map<string, number>();
  #nonce = 0;

  constructor(
    stream: ServerHttp2Stream,
    assignments: () => ReadonlyMap<string, Assignment>,
    log: Log,
    onAccepted: (assignment: Assignment) => void,
  ) {
    this.#onAccepted = onAccepted;
    this.#stream = stream;
    this.#assignments = assignments;
    this.#log = log;
    readFrames(stream, (message) => this.#onRequest(message));
  }

  requests(name: string): boolean {
    return this.#names.has(name);
  }

  /** False if Envoy has accepted a newer edition of the cluster, which replaces this one at once. */
  isNewest(cluster: string, edition: number | undefined): boolean {
    const newest = this.#editions.get(cluster) ?? 0;
    if (edition === undefined || edition < newest) return false;
    this.#editions.set(cluster, edition);
    return true;
  }

  sendChanges(): void {
    const all = this.#assignments();
    const changed: Assignment[] = [];
    for (const name of this.#names) {
      const assignment = all.get(name);
      const sent = this.#sent.get(name);
      if (assignment === undefined || sent === assignment || sent?.bytes.equals(assignment.bytes)) continue;
      this.#sent.set(name, assignment);
      changed.push(assignment);
    }
    if (changed.length === 0 || this.#stream.destroyed) return;
    this.#nonce += 1;
    const nonce = String(this.#nonce);
    this.#unacknowledged.set(nonce, changed);
    const messages = changed.map(({ bytes }) => bytes);
    this.#stream.write(frame(encodeResponse(messages, nonce)));
  }

  #onRequest(message: Buffer): void {
    const { type, names, nonce, error } = decodeRequest(message);
    if (type !== ENDPOINTS_TYPE) return;
    if (error !== undefined)
      this.#log.error({ error }, "envoy rejected endpoints; the previous ones stay active");
    this.#names = new Set(names);
    const acknowledged = this.#unacknowledged.get(nonce);
    // A replaced cluster waits for its endpoints, even if they are unchanged.
    if (!this.#unacknowledged.delete(nonce)) this.#sent = new Map();
    if (error === undefined) for (const assignment of acknowledged ?? []) this.#onAccepted(assignment);
    this.sendChanges();
  }
}
