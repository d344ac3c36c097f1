/** The listeners of a relay: one per service, which passes requests on as they are. Pure. */
import { MAX_HEADERS_KIB } from "../../../src/http/header-limit.ts";
import { mutateHeaders, removeHeader, setHeader } from "./filters.ts";
import { CONNECTION_BUFFER_BYTES, CONNECTION_IDLE, HEADERS_TIMEOUT } from "./listener.ts";
import { renderRetries } from "./routes.ts";
import { type Config, discovery, typed, typedMessage } from "./typed.ts";

const NO_TIMEOUT = "0s";
/** Envoy sets x-forwarded-proto where a client sends none. The value of the client is kept here, and restored. */
const PROTO = "x-forwarded-proto";
const CLIENT_PROTO = "x-metalbridge-forwarded-proto";

export interface RelayListenersOptions {
  readonly address: string;
  /** `service` is the name of its cluster. */
  readonly ports: readonly { readonly port: number; readonly service: string }[];
}

export function renderRelayListeners({ address, ports }: RelayListenersOptions): string {
  return discovery(ports.map((one) => listenerOf(address, one)));
}

function listenerOf(address: string, { port, service }: RelayListenersOptions["ports"][number]): Config {
  return typedMessage("config.listener.v3.Listener", {
    name: `${service}:${port}`,
    // One set of statistics for all, because a thousand would take memory.
    stat_prefix: "metalbridge",
    address: {
      socket_address: { address, port_value: port, ipv4_compat: address === "::" ? true : undefined },
    },
    per_connection_buffer_limit_bytes: CONNECTION_BUFFER_BYTES,
    filter_chains: [{ filters: [renderHttp(service)] }],
  });
}

function renderHttp(service: string): Config {
  return typed(
    "envoy.filters.network.http_connection_manager",
    "extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
    {
      stat_prefix: "metalbridge",
      codec_type: "HTTP1",
      use_remote_address: false,
      skip_xff_append: true,
      generate_request_id: false,
      server_header_transformation: "PASS_THROUGH",
      proxy_100_continue: true,
      upgrade_configs: [{ upgrade_type: "websocket" }],
      common_http_protocol_options: { idle_timeout: CONNECTION_IDLE },
      http_protocol_options: { accept_http_10: true, default_host_for_http_10: "metalbridge" },
      max_request_headers_kb: MAX_HEADERS_KIB,
      request_headers_timeout: HEADERS_TIMEOUT,
      stream_idle_timeout: NO_TIMEOUT,
      early_header_mutation_extensions: [
        typed(
          "envoy.http.early_header_mutation.header_mutation",
          "extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
          {
            mutations: [
              // Headers by which a client could change retries and timeouts.
              { remove_on_match: { key_matcher: { prefix: "x-envoy-" } } },
              removeHeader(CLIENT_PROTO),
              setHeader(CLIENT_PROTO, `%REQ(${PROTO})%`),
            ],
          },
        ),
      ],
      local_reply_config: { body_format: { json_format: failureOf(service) } },
      route_config: routesTo(service),
      http_filters: [
        mutateHeaders("metalbridge.proto", {
          request_mutations: [
            removeHeader(PROTO),
            setHeader(PROTO, `%REQ(${CLIENT_PROTO})%`),
            removeHeader(CLIENT_PROTO),
          ],
        }),
        typed("envoy.filters.http.router", "extensions.filters.http.router.v3.Router", {
          suppress_envoy_headers: true,
        }),
      ],
    },
  );
}

/** In the form that OpenAI's clients read. */
function failureOf(service: string): Config {
  const message = `${service} gave no response (%RESPONSE_CODE_DETAILS%). Retry later.`;
  return { error: { message, type: "server_error", code: "service_unavailable" } };
}

function routesTo(service: string): Config {
  return {
    name: service,
    // The cluster may follow the listener.
    validate_clusters: false,
    virtual_hosts: [
      {
        name: "all",
        domains: ["*"],
        routes: [
          {
            match: { prefix: "/" },
            route: {
              cluster: service,
              timeout: NO_TIMEOUT,
              idle_timeout: NO_TIMEOUT,
              retry_policy: renderRetries(),
            },
            request_headers_to_remove: ["x-envoy-internal", "x-envoy-expected-rq-timeout-ms"],
          },
        ],
      },
    ],
  };
}
