/**
 * Serves the load of services to autoscalers: external.metrics.k8s.io for the aggregator of the API server, and a path for KEDA. It
 * uses a separate watch, so that every controller serves it, not only the leader.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, type Server } from "node:https";
import type { TLSSocket } from "node:tls";
import { INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { limitConnections } from "../../src/http/connections.ts";
import type { HttpResponse } from "../../src/http/listener.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { CONFIG_MAPS, SECRETS } from "../../src/kube/kinds.ts";
import type { ConfigMap, Secret } from "../../src/kube/objects.ts";
import type { ObjectRef } from "../../src/kube/types.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createCertifiedListener } from "../certificates/listener.ts";
import { type Aggregator, aggregatorOf } from "./aggregator.ts";
import { answerExternalMetrics, answerLoad, type ExternalAnswer, failure, type LoadSource } from "./api.ts";

export interface LoadOptions {
  readonly connection: KubeConnection;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
}

export interface ExternalMetricsOptions extends LoadOptions {
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly secret: ObjectRef;
}

const REQUEST_MS = 10_000;
const CONNECTIONS = { total: 256, perAddress: 256 };
/** API servers (Go) close an idle connection after 90 s. A server that closed it first could drop a request in flight. */
const KEEP_ALIVE_MS = 120_000;
const AUTHENTICATION = { name: "extension-apiserver-authentication", namespace: "kube-system" };

/** Watches services, whose status has their load. */
export function watchLoad(options: LoadOptions): LoadSource & { readonly isSynced: () => boolean } {
  return startReflector({ ...options, kind: INFERENCE_SERVICES, onChange: () => {} });
}

/** Answers KEDA. The load is as public as the metrics of the same port. */
export function loadRoute(
  load: ReturnType<typeof watchLoad>,
): (request: IncomingMessage) => Promise<HttpResponse> {
  return async ({ method, url = "" }) => {
    if (method !== "GET") return { status: 405, body: "only GET is allowed\n" };
    if (!load.isSynced()) return { status: 503, body: "the services are not listed yet\n" };
    return answerLoad(url.split("?")[0] ?? "", load) ?? { status: 404, body: "not found\n" };
  };
}

/** Listens once there is a certificate, and the authority of the aggregator is known. */
export function serveExternalMetrics(
  options: ExternalMetricsOptions,
  load: ReturnType<typeof watchLoad>,
): void {
  const { clock, log, secret: ref } = options;
  let aggregator: Aggregator | undefined;
  let secret: Secret | undefined;
  const server = createMetricsServer(
    () => aggregator,
    (url) =>
      load.isSynced()
        ? answerExternalMetrics(url, load, isoSeconds(clock.nowMs()))
        : failure(503, "ServiceUnavailable", "the services are not listed yet"),
  );
  const listener = createCertifiedListener({
    ...options,
    server,
    what: "external metrics",
    clientAuthorities: () => aggregator?.authorities,
  });
  startReflector<Secret>({
    ...options,
    kind: SECRETS,
    namespace: ref.namespace ?? "",
    fieldSelector: `metadata.name=${ref.name}`,
    onChange: (_, found) => {
      secret = found;
      listener.onSecret(secret);
    },
  });
  startReflector<ConfigMap>({
    ...options,
    kind: CONFIG_MAPS,
    namespace: AUTHENTICATION.namespace,
    fieldSelector: `metadata.name=${AUTHENTICATION.name}`,
    onChange: (_, found) => {
      aggregator = aggregatorOf(found?.data);
      if (aggregator === undefined)
        log.warn(AUTHENTICATION, "external metrics: the API server has no client CA for aggregation");
      listener.onSecret(secret);
    },
  });
}

function createMetricsServer(
  aggregator: () => Aggregator | undefined,
  answer: (url: string) => ExternalAnswer,
): Server {
  const limits = { requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS, handshakeTimeout: REQUEST_MS };
  const client = { requestCert: true, rejectUnauthorized: false };
  const server = createServer(
    { ...limits, ...client, keepAliveTimeout: KEEP_ALIVE_MS },
    (request, response) => {
      const { status, body } = !isFromAggregator(request.socket as TLSSocket, aggregator())
        ? failure(401, "Unauthorized", "only the aggregator of the API server may ask")
        : request.method === "GET"
          ? answer(request.url ?? "/")
          : failure(405, "MethodNotAllowed", "only GET is allowed");
      send(response, status, body);
    },
  );
  limitConnections(server, CONNECTIONS);
  return server;
}

/**
 * The API server has authenticated and authorized a request before its aggregator forwards it, so the certificate of the aggregator
 * is enough. A resumed session counts as authorized without a certificate, so the certificate itself is required too.
 */
function isFromAggregator(socket: TLSSocket, aggregator: Aggregator | undefined): boolean {
  if (aggregator === undefined || !socket.authorized) return false;
  const names = [socket.getPeerX509Certificate()?.toLegacyObject().subject.CN ?? []].flat();
  return names.some((name) => aggregator.names.length === 0 || aggregator.names.includes(name));
}

function send(response: ServerResponse, status: number, body: ExternalAnswer["body"]): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
