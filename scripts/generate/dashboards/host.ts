/** One or several hosts: memory, disk, engines, and the agent itself. */
import { type Dashboard, graph, stat, table } from "./panel.ts";

export const host: Dashboard = {
  uid: "metalbridge-host",
  title: "Metalbridge / Host",
  description: "Engines of one host and their resources. Needs the metrics of its agent.",
  variables: [{ name: "host", query: "label_values(metalbridge_agent_info, host)", isMulti: true }],
  rows: [
    {
      title: "Now",
      panels: [
        stat({
          title: "Engines ready",
          description: "Replicas in phase Ready.",
          queries: [["{{host}}", 'sum by (host) (metalbridge_replica_phase{host=~"$host", phase="Ready"})']],
        }),
        stat({
          title: "Not ready",
          description: "Replicas that should be ready and are not.",
          queries: [
            [
              "{{host}}",
              'sum by (host) (metalbridge_replica_phase{host=~"$host", phase!~"Ready|Draining|Stopped"})',
            ],
          ],
        }),
        stat({
          title: "Memory pressure",
          description: "Current level.",
          width: 8,
          queries: [
            [
              "{{host}} {{level}}",
              'max by (host, level) (metalbridge_host_memory_pressure{host=~"$host"}) == 1',
            ],
          ],
        }),
        stat({
          title: "Agent started",
          description: "Start time of the agent.",
          unit: "dateTimeFromNow",
          queries: [
            [
              "{{host}}",
              '1000 * (process_start_time_seconds * on (instance) group_left (host) metalbridge_agent_info{host=~"$host"})',
            ],
          ],
        }),
        stat({
          title: "Version",
          description: "Version of the agent.",
          unit: "none",
          queries: [
            ["{{host}} {{version}}", 'max by (host, version) (metalbridge_agent_info{host=~"$host"})'],
          ],
        }),
      ],
    },
    {
      title: "Memory and disk",
      panels: [
        graph({
          title: "Memory: claimed, footprint, budget",
          description: "Claims must stay below the budget; footprints should stay below claims.",
          unit: "bytes",
          queries: [
            ["{{host}} claimed", 'max by (host) (metalbridge_host_memory_claimed_bytes{host=~"$host"})'],
            ["{{host}} taken", 'sum by (host) (metalbridge_replica_memory_footprint_bytes{host=~"$host"})'],
            ["{{host}} budget", 'max by (host) (metalbridge_host_memory_budget_bytes{host=~"$host"})'],
          ],
        }),
        graph({
          title: "Memory of the machine",
          description: "Installed, available, and swap in use.",
          unit: "bytes",
          queries: [
            ["{{host}} installed", 'max by (host) (metalbridge_host_memory_size_bytes{host=~"$host"})'],
            ["{{host}} available", 'max by (host) (metalbridge_host_memory_available_bytes{host=~"$host"})'],
            ["{{host}} swap", 'max by (host) (metalbridge_host_swap_used_bytes{host=~"$host"})'],
          ],
        }),
        graph({
          title: "Disk of the model store",
          description: "Downloads stop at the reserve.",
          unit: "bytes",
          queries: [
            ["{{host}} size", 'max by (host) (metalbridge_host_disk_size_bytes{host=~"$host"})'],
            ["{{host}} free", 'max by (host) (metalbridge_host_disk_free_bytes{host=~"$host"})'],
            ["{{host}} reserve", 'max by (host) (metalbridge_host_disk_reserve_bytes{host=~"$host"})'],
            ["{{host}} models", 'max by (host) (metalbridge_host_models_bytes{host=~"$host"})'],
          ],
        }),
      ],
    },
    {
      title: "Engines",
      panels: [
        graph({
          title: "Generated tokens per second",
          description: "By replica.",
          queries: [
            [
              "{{namespace}}/{{replica}}",
              'sum by (namespace, replica) (rate(metalbridge_engine_generated_tokens_total{host=~"$host"}[$__rate_interval]))',
            ],
          ],
        }),
        graph({
          title: "Requests in engines",
          description: "By replica: in flight, and queued.",
          queries: [
            ["{{replica}} running", 'sum by (replica) (metalbridge_engine_requests_running{host=~"$host"})'],
            [
              "{{replica}} waiting",
              'sum by (replica) (metalbridge_engine_requests_waiting{host=~"$host"}) > 0',
            ],
          ],
        }),
        graph({
          title: "Health probe latency, 99th percentile",
          description: "Latency rises before an engine hangs.",
          unit: "s",
          queries: [
            [
              "{{replica}}",
              'histogram_quantile(0.99, sum by (replica, le) (rate(metalbridge_replica_probe_duration_seconds_bucket{host=~"$host", probe="health"}[5m])))',
            ],
          ],
        }),
        graph({
          title: "Unexpected exits",
          description: "By replica and reason; docs/errors.md explains the codes.",
          width: 12,
          queries: [
            [
              "{{replica}} {{reason}}",
              'sum by (replica, reason) (increase(metalbridge_replica_exits_total{host=~"$host"}[$__range])) > 0',
            ],
          ],
        }),
        table({
          title: "Replicas",
          description: "Replicas of this host with phase and reason.",
          width: 12,
          queries: [
            [
              "",
              'max by (host, namespace, service, replica, reason) (metalbridge_replica_reason{host=~"$host"})',
            ],
            [
              "",
              'max by (host, namespace, service, replica, runtime, revision) (metalbridge_replica_info{host=~"$host"})',
            ],
          ],
        }),
      ],
    },
    {
      title: "Agent",
      panels: [
        graph({
          title: "CPU time of the agent",
          description: "Fraction of one core.",
          unit: "percentunit",
          queries: [
            [
              "{{host}}",
              'rate(process_cpu_seconds_total[$__rate_interval]) * on (instance) group_left (host) metalbridge_agent_info{host=~"$host"}',
            ],
          ],
        }),
        graph({
          title: "Requests to the API server",
          description: "By verb and status code; 0 if no response arrived.",
          unit: "reqps",
          queries: [
            [
              "{{host}} {{verb}} {{code}}",
              'sum by (host, verb, code) (rate(metalbridge_agent_api_requests_total{host=~"$host"}[$__rate_interval]))',
            ],
          ],
        }),
        graph({
          title: "Age of the replica watch",
          description: "Bookmarks arrive about once a minute.",
          unit: "s",
          queries: [["{{host}}", 'max by (host) (metalbridge_agent_watch_age_seconds{host=~"$host"})']],
        }),
        graph({
          title: "Downloads",
          description: "Bytes per second from model sources.",
          unit: "Bps",
          queries: [
            [
              "{{host}}",
              'sum by (host) (rate(metalbridge_agent_download_bytes_total{host=~"$host"}[$__rate_interval]))',
            ],
          ],
        }),
        graph({
          title: "Failed downloads",
          description: "By code.",
          queries: [
            [
              "{{host}} {{reason}}",
              'sum by (host, reason) (increase(metalbridge_agent_fetch_failures_total{host=~"$host"}[$__range])) > 0',
            ],
          ],
        }),
        graph({
          title: "Drains",
          description:
            "Time from the stop request until all processes of the engine are gone, 95th percentile.",
          unit: "s",
          queries: [
            [
              "{{host}} {{outcome}}",
              'histogram_quantile(0.95, sum by (host, outcome, le) (rate(metalbridge_agent_drain_duration_seconds_bucket{host=~"$host"}[$__range])))',
            ],
          ],
        }),
      ],
    },
  ],
};
