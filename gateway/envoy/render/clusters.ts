/** Clusters, one per service beside the decision service's own. Their endpoints come from the gateway's endpoint server. Pure. */

import { assignmentName } from "../grpc/editions.ts";
import { DECIDE_CLUSTER, HEADERS, METADATA_NAMESPACES, SEALED } from "../names.ts";
import type { EnvoyCluster } from "../types.ts";
import { type Config, seconds, secretAt, typed, typedMessage } from "./typed.ts";

const DEFAULT_MAX_CONNECTIONS = 4_096;
const DEFAULT_SLOW_START_MS = 10_000;
/** Held requests each keep a connection to the decision service. */
const MAX_DECISIONS = 100_000;
/** A host that is off does not answer at all; one in the same network answers within milliseconds. */
const CONNECT_TIMEOUT_MS = 1_000;
/** For engines of which is not known that they keep connections. Connecting takes one round trip in the local network. */
const ONE_REQUEST = { max_requests_per_connection: 1 };
/** llama-server and Python's web servers close a connection after 5 s without a request, so that Envoy has to be the first. */
const KEPT = { idle_timeout: "2s" };

/** Connections get the certificate of a rotation within this time; the controller publishes the previous one for longer. */
const SEALED_CONNECTION = "300s";

/**
 * TCP_USER_TIMEOUT. A request on a kept connection to a host that has lost its power would wait for a quarter of an hour: keepalive
 * probes begin only when all data is acknowledged. It also ends a body that the engine does not read, and the keepalive once two
 * probes are lost, so it is no shorter.
 */
const UNACKNOWLEDGED = { level: 6, name: 18, int_value: 20_000, state: "STATE_PREBIND" };

export interface EnvoyClusterOptions {
  /** Envoy runs on it. */
  readonly platform: NodeJS.Platform;
  /** decision: the endpoints of the decision service in order. leastRequests: the endpoint with the fewest requests. */
  readonly balancer: "decision" | "leastRequests";
  /** Buffer of a connection to an endpoint. */
  readonly bufferBytes: number;
  /** For services with HTTPS: the files with the trust bundle, and with the certificate of this gateway. */
  readonly upstreamTls?: { readonly trustFile: string; readonly clientFile: string | undefined } | undefined;
  /** The file with the certificate of this gateway for sealed endpoints. */
  readonly transportFile: string;
}

/** The file of all clusters, by the text of each. */
export function joinClusters(texts: readonly string[]): string {
  return `{"resources":[${texts.join(",\n")}]}\n`;
}

/** The cluster of one service. */
export function renderCluster(cluster: EnvoyCluster, options: EnvoyClusterOptions): string {
  return JSON.stringify(clusterOf(cluster, options));
}

/** The cluster of the decision service. */
export function renderDecideCluster(decideSocket: string): string {
  return JSON.stringify(decideCluster(decideSocket));
}

function clusterOf(
  cluster: EnvoyCluster,
  { balancer, bufferBytes, upstreamTls, transportFile, platform }: EnvoyClusterOptions,
): Config {
  const { name, maxConnections = DEFAULT_MAX_CONNECTIONS, slowStartMs = DEFAULT_SLOW_START_MS } = cluster;
  const { keepsConnections = false, fingerprints = [] } = cluster;
  return typedMessage("config.cluster.v3.Cluster", {
    name,
    type: "EDS",
    eds_cluster_config: {
      eds_config: { resource_api_version: "V3", ads: {} },
      service_name: fingerprints.length > 0 ? assignmentName(cluster) : undefined,
    },
    connect_timeout: seconds(CONNECT_TIMEOUT_MS),
    per_connection_buffer_limit_bytes: bufferBytes,
    load_balancing_policy: { policies: [{ typed_extension_config: renderBalancer(balancer, slowStartMs) }] },
    // Without this, a cluster with few healthy endpoints would send requests to unhealthy ones.
    common_lb_config: { healthy_panic_threshold: { value: 0 } },
    circuit_breakers: limits(maxConnections),
    outlier_detection: OUTLIERS,
    upstream_connection_options: {
      tcp_keepalive: { keepalive_probes: 3, keepalive_time: 10, keepalive_interval: 5 },
    },
    upstream_bind_config:
      keepsConnections && platform === "linux" ? { socket_options: [UNACKNOWLEDGED] } : undefined,
    transport_socket: cluster.tlsName && upstreamTls && renderUpstreamTls(cluster.tlsName, upstreamTls),
    transport_socket_matches:
      fingerprints.length > 0 ? [renderSealedMatch(fingerprints, transportFile)] : undefined,
    typed_extension_protocol_options: {
      "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": typedMessage(
        "extensions.upstreams.http.v3.HttpProtocolOptions",
        {
          common_http_protocol_options: {
            ...(keepsConnections ? KEPT : ONE_REQUEST),
            max_connection_duration: fingerprints.length > 0 ? SEALED_CONNECTION : undefined,
          },
          explicit_http_config: { http_protocol_options: {} },
        },
      ),
    },
  });
}

/** The certificate must name the service, because one CA may sign all hosts. */
function renderUpstreamTls(
  tlsName: string,
  { trustFile, clientFile }: NonNullable<EnvoyClusterOptions["upstreamTls"]>,
): Config {
  return typed("envoy.transport_sockets.tls", "extensions.transport_sockets.tls.v3.UpstreamTlsContext", {
    sni: tlsName,
    common_tls_context: {
      alpn_protocols: ["http/1.1"],
      tls_params: { tls_minimum_protocol_version: "TLSv1_2", tls_maximum_protocol_version: "TLSv1_3" },
      tls_certificate_sds_secret_configs: clientFile && [secretAt(clientFile)],
      combined_validation_context: {
        default_validation_context: {
          match_typed_subject_alt_names: [{ san_type: "DNS", matcher: { exact: tlsName } }],
        },
        validation_context_sds_secret_config: secretAt(trustFile),
      },
    },
  });
}

/**
 * TLS for the endpoints that are marked as sealed, the others are plain. Certificates are recognized by their fingerprints: no
 * authority, no names, no dates. A resumed session would skip that.
 */
function renderSealedMatch(fingerprints: readonly string[], transportFile: string): Config {
  return {
    name: SEALED.value,
    match: { [SEALED.key]: SEALED.value },
    transport_socket: typed(
      "envoy.transport_sockets.tls",
      "extensions.transport_sockets.tls.v3.UpstreamTlsContext",
      {
        max_session_keys: 0,
        common_tls_context: {
          alpn_protocols: ["http/1.1"],
          tls_params: { tls_minimum_protocol_version: "TLSv1_3", tls_maximum_protocol_version: "TLSv1_3" },
          tls_certificate_sds_secret_configs: [secretAt(transportFile)],
          validation_context: {
            // Without a CA, one of these must match. ACCEPT_UNTRUSTED would accept every certificate, even with this list.
            verify_certificate_hash: fingerprints,
          },
        },
      },
    ),
  };
}

/** The endpoints of the decision in order, otherwise the one with the fewest requests. Addresses outside the cluster are ignored. */
function renderBalancer(balancer: EnvoyClusterOptions["balancer"], slowStartMs: number): Config {
  const leastRequest = typed(
    "envoy.load_balancing_policies.least_request",
    "extensions.load_balancing_policies.least_request.v3.LeastRequest",
    slowStartMs === 0
      ? {}
      : { slow_start_config: { slow_start_window: seconds(slowStartMs), min_weight_percent: { value: 10 } } },
  );
  if (balancer === "leastRequests") return leastRequest;
  return typed(
    "envoy.load_balancing_policies.override_host",
    "extensions.load_balancing_policies.override_host.v3.OverrideHost",
    {
      override_host_sources: [
        { metadata: { key: METADATA_NAMESPACES.decision, path: [{ key: HEADERS.endpoint }] } },
      ],
      fallback_policy: { policies: [{ typed_extension_config: leastRequest }] },
    },
  );
}

/** Errors in responses, such as 500 for a prompt that the engine cannot serve, do not eject the endpoint. */
const OUTLIERS: Config = {
  split_external_local_origin_errors: true,
  consecutive_local_origin_failure: 3,
  consecutive_gateway_failure: 5,
  enforcing_consecutive_gateway_failure: 100,
  enforcing_consecutive_5xx: 0,
  enforcing_success_rate: 0,
  enforcing_local_origin_success_rate: 0,
  interval: "1s",
  base_ejection_time: "5s",
  max_ejection_time: "60s",
  max_ejection_percent: 50,
};

function decideCluster(decideSocket: string): Config {
  return typedMessage("config.cluster.v3.Cluster", {
    name: DECIDE_CLUSTER,
    type: "STATIC",
    connect_timeout: seconds(CONNECT_TIMEOUT_MS),
    circuit_breakers: limits(MAX_DECISIONS),
    load_assignment: {
      cluster_name: DECIDE_CLUSTER,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: decideSocket } } } }] }],
    },
  });
}

function limits(max: number): Config {
  const threshold = { max_connections: max, max_pending_requests: max, max_requests: max, max_retries: max };
  return { thresholds: [threshold] };
}
