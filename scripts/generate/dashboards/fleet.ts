/** The whole farm: is everything served, on which hosts, and what waits. */
import { type Dashboard, graph, stat, table } from "./panel.ts";

export const fleetDashboard: Dashboard = {
  uid: "metalbridge-farm",
  title: "Metalbridge / Farm",
  description:
    "Hosts, services and capacity of one cluster. Needs the controller's metrics; tokens need the agents' too.",
  variables: [],
  rows: [
    {
      title: "Now",
      panels: [
        stat({
          title: "Hosts reachable",
          description: "Hosts whose agent renews its Lease.",
          queries: [
            ["", 'sum(max by (host) (metalbridge_host_condition{condition="Reachable", status="True"}))'],
          ],
        }),
        stat({
          title: "Hosts unreachable",
          description: "Hosts that have joined and whose Lease has expired.",
          queries: [
            [
              "",
              'sum(max by (host) (metalbridge_host_condition{condition="Reachable", status=~"False|Unknown"}))',
            ],
          ],
        }),
        stat({
          title: "Hosts not joined yet",
          width: 3,
          description: "Registered hosts as which no agent has joined.",
          queries: [["", "sum(max by (host) (metalbridge_host_joined) == bool 0)"]],
        }),
        stat({
          title: "Services ready",
          description: "Services with all desired replicas ready.",
          queries: [["", 'sum(max by (namespace, service) (metalbridge_service_phase{phase="Ready"}))']],
        }),
        stat({
          title: "Services not ready",
          width: 3,
          description: "Services with fewer ready replicas than desired.",
          queries: [
            [
              "",
              'sum(max by (namespace, service) (metalbridge_service_phase{phase!~"Ready|Stopped|Suspended"}))',
            ],
          ],
        }),
        stat({
          title: "Waiting for capacity",
          width: 3,
          description: "Queued services: no host or node has room.",
          queries: [["", "sum(metalbridge_controller_waiting_services)"]],
        }),
        stat({
          title: "Leader",
          width: 3,
          description: "1 if exactly one controller is leader.",
          queries: [["", "sum(metalbridge_controller_leading)"]],
        }),
      ],
    },
    {
      title: "Work",
      panels: [
        graph({
          title: "Tokens per second",
          description: "Sum over all engines.",
          queries: [
            ["generated", "sum(rate(metalbridge_engine_generated_tokens_total[$__rate_interval]))"],
            ["prompt", "sum(rate(metalbridge_engine_prompt_tokens_total[$__rate_interval]))"],
            [
              "prompt, from cache",
              "sum(rate(metalbridge_engine_prompt_tokens_cached_total[$__rate_interval]))",
            ],
          ],
        }),
        graph({
          title: "Requests in engines",
          description: "In flight, and queued inside an engine.",
          queries: [
            ["running", "sum(metalbridge_engine_requests_running)"],
            ["waiting", "sum(metalbridge_engine_requests_waiting)"],
          ],
        }),
        graph({
          title: "Replicas by phase",
          description: "Replicas on unreachable hosts are counted separately.",
          queries: [
            [
              "{{phase}}",
              'sum by (phase) (max by (phase, reachable) (metalbridge_controller_replicas{reachable="true"})) > 0',
            ],
            [
              "not reachable",
              'sum(max by (phase, reachable) (metalbridge_controller_replicas{reachable="false"}))',
            ],
          ],
        }),
      ],
    },
    {
      title: "Capacity",
      panels: [
        graph({
          title: "Memory claimed, share of the budget",
          description: "As the scheduler sees it. At 1 the host is full.",
          unit: "percentunit",
          width: 12,
          queries: [
            [
              "{{host}}",
              "max by (host) (metalbridge_host_status_memory_claimed_bytes) / max by (host) (metalbridge_host_status_memory_budget_bytes)",
            ],
          ],
        }),
        graph({
          title: "Queue positions",
          description: "Queued services; 1 is next.",
          width: 12,
          queries: [
            ["{{namespace}}/{{service}}", "max by (namespace, service) (metalbridge_service_queue_position)"],
          ],
        }),
        table({
          title: "Services not ready",
          description: "Phase of each.",
          width: 12,
          queries: [
            [
              "",
              'max by (namespace, service, phase) (metalbridge_service_phase{phase!~"Ready|Stopped|Suspended"}) == 1',
            ],
          ],
        }),
        table({
          title: "Hosts with a condition that needs attention",
          description: "Conditions of each Host.",
          width: 12,
          queries: [
            [
              "",
              'max by (host, condition, status) (metalbridge_host_condition{condition=~"Ready|Reachable|RuntimesUsable", status!="True"} or metalbridge_host_condition{condition=~"Lost|MemoryPressure|DiskPressure|ThermalPressure|Flapping", status="True"}) == 1',
            ],
          ],
        }),
      ],
    },
    {
      title: "Controller",
      panels: [
        graph({
          title: "Reconciles per second",
          description: "By queue.",
          queries: [
            [
              "{{queue}}",
              "sum by (queue) (rate(metalbridge_controller_reconcile_duration_seconds_count[$__rate_interval]))",
            ],
            [
              "{{queue}} failed",
              "sum by (queue) (rate(metalbridge_controller_reconcile_errors_total[$__rate_interval])) > 0",
            ],
          ],
        }),
        graph({
          title: "Reconcile duration, 95th percentile",
          description: "By queue; Models read their source over the network.",
          unit: "s",
          queries: [
            [
              "{{queue}}",
              "histogram_quantile(0.95, sum by (queue, le) (rate(metalbridge_controller_reconcile_duration_seconds_bucket[$__rate_interval])))",
            ],
          ],
        }),
        graph({
          title: "Queue depth",
          description: "By queue, keys due or in progress; should return to 0.",
          queries: [["{{queue}}", "max by (queue) (metalbridge_controller_queue_depth)"]],
        }),
        graph({
          title: "Requests to the API server",
          description: "By the controller, by verb and status code.",
          unit: "reqps",
          width: 12,
          queries: [
            [
              "{{verb}} {{code}}",
              "sum by (verb, code) (rate(metalbridge_controller_api_requests_total[$__rate_interval]))",
            ],
          ],
        }),
        graph({
          title: "Age of watches",
          description: "Bookmarks arrive about once a minute.",
          unit: "s",
          width: 12,
          queries: [["{{kind}}", "max by (kind) (metalbridge_controller_watch_age_seconds)"]],
        }),
      ],
    },
  ],
};
