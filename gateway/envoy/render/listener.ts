/** The listener: TLS, HTTP, filters and routes. Pure. */
import { MAX_HEADERS_KIB } from "../../../src/http/header-limit.ts";
import { renderLogFormat } from "../access-log.ts";
import { ENDPOINTS_CLUSTER, HEADERS, METADATA_NAMESPACES } from "../names.ts";
import type { EnvoyCors, ListenAddress } from "../types.ts";
import { renderEarlyMutation, renderFilters } from "./filters.ts";
import { renderLocalReplies } from "./local-replies.ts";
import { renderEnvoyRoutes } from "./routes.ts";
import { type Config, discovery, seconds, secretAt, typed, typedMessage } from "./typed.ts";

export const HEADERS_TIMEOUT = "10s";
/** Buffer for a request that is not authenticated yet, and for a response that its client does not read. */
export const CONNECTION_BUFFER_BYTES = 256 * 1024;
/** Browsers and clients reuse connections. Envoy shortens the timeout as its memory use grows. */
export const CONNECTION_IDLE = "600s";

export interface ListenerOptions {
  readonly listen: ListenAddress;
  /** The file with the secret, if the listener uses TLS. */
  readonly secretFile?: string;
  readonly accessLogFile: string;
  /** Unix socket for connections that arrived while no Envoy listened. */
  readonly heldSocket: string;
  readonly maxBodyBytes: number;
  readonly requestReceiveMs: number;
  readonly firstBytesMs: number;
  readonly idleMs: number;
  readonly decideMs: number;
  readonly cors?: EnvoyCors;
}

/** The file of all listeners. */
export function renderListeners(options: ListenerOptions): string {
  const { listen, heldSocket } = options;
  const address = { socket_address: { address: listen.address, port_value: listen.port } };
  return discovery([
    renderListener("metalbridge", address, options),
    // Its connections pass through the gateway, so that each has one request: the next one reaches Envoy directly.
    renderListener("held", { pipe: { path: heldSocket, mode: 0o600 } }, options, 1),
  ]);
}

function renderListener(
  name: string,
  address: Config,
  options: ListenerOptions,
  maxRequestsPerConnection?: number,
): Config {
  const { secretFile, firstBytesMs } = options;
  const chain = {
    filters: [renderHttp(options, maxRequestsPerConnection)],
    transport_socket: secretFile && renderTls(secretFile),
    transport_socket_connect_timeout: secretFile && seconds(firstBytesMs),
  };
  const inspector = secretFile === undefined ? "http_inspector" : "tls_inspector";
  return typedMessage("config.listener.v3.Listener", {
    name,
    address,
    per_connection_buffer_limit_bytes: CONNECTION_BUFFER_BYTES,
    filter_chains: [chain],
    // Used only for its timeout: it closes a connection that sends nothing.
    listener_filters: [
      typed(
        `envoy.filters.listener.${inspector}`,
        `extensions.filters.listener.${inspector}.v3.${secretFile === undefined ? "HttpInspector" : "TlsInspector"}`,
      ),
    ],
    listener_filters_timeout: seconds(firstBytesMs),
  });
}

function renderHttp(options: ListenerOptions, maxRequestsPerConnection: number | undefined): Config {
  const { accessLogFile, maxBodyBytes, requestReceiveMs, idleMs } = options;
  return typed(
    "envoy.filters.network.http_connection_manager",
    "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    {
      stat_prefix: "metalbridge",
      // Headers of a proxy before this one that name another client are not trusted.
      use_remote_address: true,
      normalize_path: true,
      merge_slashes: true,
      // Clients ask for a model NAMESPACE%2FNAME; the decision service refuses all other paths with a percent sign.
      path_with_escaped_slashes_action: "KEEP_UNCHANGED",
      server_header_transformation: "PASS_THROUGH",
      common_http_protocol_options: {
        idle_timeout: CONNECTION_IDLE,
        max_requests_per_connection: maxRequestsPerConnection,
        // An engine may treat x_a as x-a, which could be a reserved header.
        headers_with_underscores_action: "DROP_HEADER",
      },
      // A proxy before the gateway may use HTTP/1.0, without a Host header.
      http_protocol_options: { accept_http_10: true, default_host_for_http_10: "metalbridge" },
      max_request_headers_kb: MAX_HEADERS_KIB,
      always_set_request_id_in_response: true,
      request_headers_timeout: HEADERS_TIMEOUT,
      request_timeout: seconds(requestReceiveMs),
      stream_idle_timeout: seconds(idleMs),
      http2_protocol_options: { max_concurrent_streams: 256 },
      early_header_mutation_extensions: [renderEarlyMutation()],
      local_reply_config: renderLocalReplies(maxBodyBytes),
      route_config: renderEnvoyRoutes(options),
      http_filters: renderFilters(options),
      access_log: [
        typed("envoy.access_loggers.file", "extensions.access_loggers.file.v3.FileAccessLog", {
          path: accessLogFile,
          log_format: { json_format: renderLogFormat() },
        }),
        renderAnsweredLog(),
      ],
    },
  );
}

/** A message for each request that was assigned to a replica. It is sent at once: its slot is free. */
function renderAnsweredLog(): Config {
  const hasTicket = {
    matcher: {
      filter: METADATA_NAMESPACES.decision,
      path: [{ key: HEADERS.ticket }],
      value: { present_match: true },
    },
    match_if_key_not_found: false,
  };
  return {
    filter: { metadata_filter: hasTicket },
    ...typed("envoy.access_loggers.http_grpc", "extensions.access_loggers.grpc.v3.HttpGrpcAccessLogConfig", {
      common_config: {
        log_name: "answered",
        transport_api_version: "V3",
        grpc_service: { envoy_grpc: { cluster_name: ENDPOINTS_CLUSTER } },
        buffer_size_bytes: 0,
      },
    }),
  };
}

function renderTls(secretFile: string): Config {
  return typed("envoy.transport_sockets.tls", "extensions.transport_sockets.tls.v3.DownstreamTlsContext", {
    common_tls_context: {
      alpn_protocols: ["h2", "http/1.1"],
      tls_params: { tls_minimum_protocol_version: "TLSv1_2" },
      tls_certificate_sds_secret_configs: [secretAt(secretFile)],
    },
  });
}
