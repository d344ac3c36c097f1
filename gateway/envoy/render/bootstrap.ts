/** Envoy's static configuration: the paths of its other files, and its admin socket. Pure. */
import { ENDPOINTS_CLUSTER } from "../names.ts";
import { type Config, typed, typedMessage } from "./typed.ts";

const RECONNECT = { retry_back_off: { base_interval: "0.05s", max_interval: "0.5s" } };
const HEAP_MONITOR = "envoy.resource_monitors.fixed_heap";
/** Heap usage from which idle client connections are closed sooner, and at which they are closed after `CROWDED_IDLE`. */
const CROWDED_FROM = 0.4;
const CROWDED_TO = 0.9;
const CROWDED_IDLE = "1s";

export interface BootstrapOptions {
  readonly listenersFile: string;
  readonly clustersFile: string;
  readonly adminSocket: string;
  /** Socket of the gateway's endpoint server. */
  readonly endpointsSocket: string;
  readonly maxClientConnections: number;
  readonly crowdedHeapBytes: number;
}

export function renderBootstrap(options: BootstrapOptions): string {
  const { listenersFile, clustersFile, adminSocket, endpointsSocket } = options;
  const bootstrap: Config = {
    node: { id: "metalbridge", cluster: "metalbridge" },
    // Not a port: anyone who reaches the admin interface can stop Envoy.
    admin: { address: { pipe: { path: adminSocket, mode: 0o600 } } },
    dynamic_resources: {
      lds_config: watched(listenersFile),
      cds_config: watched(clustersFile),
      ads_config: {
        api_type: "GRPC",
        transport_api_version: "V3",
        set_node_on_first_message_only: true,
        grpc_services: [{ envoy_grpc: { cluster_name: ENDPOINTS_CLUSTER, retry_policy: RECONNECT } }],
      },
    },
    static_resources: { clusters: [endpointsCluster(endpointsSocket)] },
    stats_config: { stats_tags: [] },
    deferred_stat_options: { enable_deferred_creation_stats: true },
    overload_manager: overloadManager(options),
  };
  return `${JSON.stringify(bootstrap)}\n`;
}

/** Refuses connections above the limit. Below it, idle connections are closed the sooner, the more memory is used. */
function overloadManager({ maxClientConnections, crowdedHeapBytes }: BootstrapOptions): Config {
  const scaled = { scaling_threshold: CROWDED_FROM, saturation_threshold: CROWDED_TO };
  return {
    refresh_interval: "0.25s",
    resource_monitors: [
      typed(
        "envoy.resource_monitors.global_downstream_max_connections",
        "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
        { max_active_downstream_connections: maxClientConnections },
      ),
      typed(HEAP_MONITOR, "extensions.resource_monitors.fixed_heap.v3.FixedHeapConfig", {
        max_heap_size_bytes: crowdedHeapBytes,
      }),
    ],
    actions: [
      {
        name: "envoy.overload_actions.reduce_timeouts",
        triggers: [{ name: HEAP_MONITOR, scaled }],
        typed_config: typedMessage("config.overload.v3.ScaleTimersOverloadActionConfig", {
          timer_scale_factors: [{ timer: "HTTP_DOWNSTREAM_CONNECTION_IDLE", min_timeout: CROWDED_IDLE }],
        }),
      },
    ],
  };
}

function endpointsCluster(socket: string): Config {
  return {
    name: ENDPOINTS_CLUSTER,
    type: "STATIC",
    connect_timeout: "1s",
    typed_extension_protocol_options: {
      "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": typedMessage(
        "extensions.upstreams.http.v3.HttpProtocolOptions",
        { explicit_http_config: { http2_protocol_options: {} } },
      ),
    },
    load_assignment: {
      cluster_name: ENDPOINTS_CLUSTER,
      endpoints: [{ lb_endpoints: [{ endpoint: { address: { pipe: { path: socket } } } }] }],
    },
  };
}

function watched(path: string): Config {
  return { resource_api_version: "V3", path_config_source: { path } };
}
