/** What Envoy reads once at its start: where its other files are, and its admin socket. Pure. */
import { type Config, typed } from "./typed.ts";

export interface BootstrapOptions {
  readonly listenersFile: string;
  readonly clustersFile: string;
  readonly adminSocket: string;
  readonly maxClientConnections: number;
}

export function renderBootstrap(options: BootstrapOptions): string {
  const { listenersFile, clustersFile, adminSocket, maxClientConnections } = options;
  const bootstrap: Config = {
    node: { id: "metalbridge", cluster: "metalbridge" },
    // Not a port: anyone who reaches the admin interface can stop Envoy.
    admin: { address: { pipe: { path: adminSocket, mode: 0o600 } } },
    dynamic_resources: { lds_config: watched(listenersFile), cds_config: watched(clustersFile) },
    stats_config: { stats_tags: [] },
    deferred_stat_options: { enable_deferred_creation_stats: true },
    overload_manager: {
      resource_monitors: [
        typed(
          "envoy.resource_monitors.global_downstream_max_connections",
          "extensions.resource_monitors.downstream_connections.v3.DownstreamConnectionsConfig",
          { max_active_downstream_connections: maxClientConnections },
        ),
      ],
    },
  };
  return `${JSON.stringify(bootstrap)}\n`;
}

function watched(path: string): Config {
  return { resource_api_version: "V3", path_config_source: { path } };
}
