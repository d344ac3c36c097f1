/** The routes. They do not depend on services: the decision service chooses the cluster of each request. Pure. */
import { DECIDE_CLUSTER, HEADERS } from "../names.ts";
import type { EnvoyCors } from "../types.ts";
import {
  AUTHENTICATE_FILTER,
  BUFFER_FILTER,
  CREDENTIALS_FILTER,
  DECIDE_FILTER,
  SCAN_FILTER,
} from "./filters.ts";
import { type Config, seconds, typedMessage } from "./typed.ts";

/** `/s/NAMESPACE/NAME/v1/…`: the base URL of one service. */
const SERVICE_PATH = "^/s/[^/]+/[^/]+(/.*)$";
const SERVICE_MODELS_PATH = "^/s/[^/]+/[^/]+/v1/models(/.*)?$";
/** A larger body, or one of unknown length, is read only after the key is checked. */
const SMALL_BODY_BYTES = 16 * 1024;
const CORS_HEADERS = ["origin", "credentials", "headers", "methods"].map(
  (part) => `access-control-allow-${part}`,
);
/** Answered by the decision service itself. */
const OWN_PATHS = ["/healthz", "/v1/models"] as const;

const WITHOUT_FILTERS: Config = Object.fromEntries(
  [AUTHENTICATE_FILTER, SCAN_FILTER, BUFFER_FILTER, DECIDE_FILTER, CREDENTIALS_FILTER].map((name) => [
    name,
    disabled(),
  ]),
);

export interface EnvoyRouteOptions {
  readonly idleMs: number;
  readonly cors?: EnvoyCors;
}

export function renderEnvoyRoutes({ idleMs, cors }: EnvoyRouteOptions): Config {
  const toEngine = {
    cluster_header: HEADERS.cluster,
    timeout: "0s",
    idle_timeout: seconds(idleMs),
    retry_policy: renderRetries(),
  };
  const stripped = {
    request_headers_to_remove: [
      HEADERS.model,
      HEADERS.stream,
      HEADERS.body,
      HEADERS.bodyBytes,
      "x-envoy-external-address",
    ],
    // Engines must not choose which pages may read their responses.
    response_headers_to_remove: CORS_HEADERS,
  };
  return {
    name: "metalbridge",
    virtual_hosts: [
      {
        name: "all",
        domains: ["*"],
        typed_per_filter_config: cors && { "envoy.filters.http.cors": corsPolicy(cors) },
        routes: [
          // Without a route, CONNECT would wait for a body.
          {
            match: { connect_matcher: {} },
            direct_response: { status: 405 },
            typed_per_filter_config: WITHOUT_FILTERS,
          },
          ...OWN_PATHS.map((path) => ownRoute({ path })),
          ownRoute({ path_separated_prefix: "/v1/models" }),
          ownRoute({ safe_regex: { regex: SERVICE_MODELS_PATH } }),
          ...[
            {
              match: { safe_regex: { regex: SERVICE_PATH } },
              route: {
                ...toEngine,
                regex_rewrite: { pattern: { regex: SERVICE_PATH }, substitution: "\\1" },
              },
              ...stripped,
            },
            { match: { prefix: "/" }, route: toEngine, ...stripped },
          ].flatMap((route) => [decidedOnce(route), route]),
        ],
      },
    ],
  };
}

/** Before the first byte of a response. Once: a request that has crashed an engine must not crash all. */
export function renderRetries(): Config {
  return {
    retry_on: "connect-failure,refused-stream,reset,retriable-status-codes",
    // The gate of a host answers so while its engine fails.
    retriable_status_codes: [502, 503],
    num_retries: 1,
    retry_host_predicate: [
      {
        name: "envoy.retry_host_predicates.previous_hosts",
        typed_config: typedMessage("extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate", {}),
      },
    ],
    host_selection_retry_max_attempts: 3,
    retry_back_off: { base_interval: "0.005s", max_interval: "0.1s" },
  };
}

/** Skips the question by headers for a body that is no larger than headers may be. */
function decidedOnce(route: { readonly match: Config }): Config {
  const isSmall = { name: "content-length", range_match: { start: 1, end: SMALL_BODY_BYTES + 1 } };
  return {
    ...route,
    match: { ...route.match, headers: [isSmall] },
    typed_per_filter_config: { [AUTHENTICATE_FILTER]: disabled() },
  };
}

function ownRoute(match: Config): Config {
  return {
    match,
    route: {
      cluster: DECIDE_CLUSTER,
      timeout: "60s",
      retry_policy: { retry_on: "connect-failure", num_retries: 5 },
    },
    typed_per_filter_config: WITHOUT_FILTERS,
  };
}

function disabled(): Config {
  return typedMessage("config.route.v3.FilterConfig", { disabled: true });
}

function corsPolicy({ allowOrigins }: EnvoyCors): Config {
  return typedMessage("extensions.filters.http.cors.v3.CorsPolicy", {
    allow_origin_string_match: allowOrigins.map((origin) =>
      origin === "*" ? { safe_regex: { regex: ".*" } } : { exact: origin },
    ),
    allow_methods: "GET, POST, OPTIONS",
    // The filter metalbridge.describe replaces it with the headers that the browser asks for.
    allow_headers: "*",
    expose_headers: "*",
    max_age: "600",
  });
}
