/** One service: its replicas, its work, its rollout. */
import { type Dashboard, graph, stat, table } from "./panel.ts";

const ONE = 'namespace="$namespace", service="$service"';

export const service: Dashboard = {
  uid: "metalbridge-service",
  title: "Metalbridge / Service",
  description:
    "One InferenceService on all of its hosts. Needs the metrics of the controller and of the agents.",
  variables: [
    { name: "namespace", query: "label_values(metalbridge_service_phase, namespace)", isMulti: false },
    {
      name: "service",
      query: 'label_values(metalbridge_service_phase{namespace="$namespace"}, service)',
      isMulti: false,
    },
  ],
  rows: [
    {
      title: "Now",
      panels: [
        stat({
          title: "Phase",
          description: "Phase of the InferenceService.",
          unit: "none",
          queries: [["{{phase}}", `max by (phase) (metalbridge_service_phase{${ONE}}) == 1`]],
        }),
        stat({
          title: "Replicas ready",
          description: "Phase Ready on a reachable host.",
          queries: [["", `max(metalbridge_service_replicas_ready{${ONE}})`]],
        }),
        stat({
          title: "Replicas desired",
          description: "0 while suspended.",
          queries: [["", `max(metalbridge_service_replicas_desired{${ONE}})`]],
        }),
        stat({
          title: "Replicas updated",
          description: "Replicas of the newest revision.",
          queries: [["", `max(metalbridge_service_replicas_updated{${ONE}})`]],
        }),
        stat({
          title: "Rollout",
          description: "stopped: the new revision fails and the old one keeps serving.",
          unit: "none",
          queries: [["{{state}}", `max by (state) (metalbridge_service_rollout{${ONE}}) == 1`]],
        }),
        stat({
          title: "Queue position",
          description: "Empty if the service is not queued.",
          queries: [["", `max(metalbridge_service_queue_position{${ONE}})`]],
        }),
      ],
    },
    {
      title: "Work",
      panels: [
        graph({
          title: "Generated tokens per second",
          description: "By replica.",
          queries: [
            [
              "{{replica}}",
              `sum by (replica) (rate(metalbridge_engine_generated_tokens_total{${ONE}}[$__rate_interval]))`,
            ],
          ],
        }),
        graph({
          title: "Prompt tokens per second",
          description: "Computed, and read from the engine's cache.",
          queries: [
            [
              "{{replica}}",
              `sum by (replica) (rate(metalbridge_engine_prompt_tokens_total{${ONE}}[$__rate_interval]))`,
            ],
            [
              "{{replica}} from cache",
              `sum by (replica) (rate(metalbridge_engine_prompt_tokens_cached_total{${ONE}}[$__rate_interval]))`,
            ],
          ],
        }),
        graph({
          title: "Requests in engines",
          description: "In flight, and queued.",
          queries: [
            ["{{replica}} running", `sum by (replica) (metalbridge_engine_requests_running{${ONE}})`],
            ["{{replica}} waiting", `sum by (replica) (metalbridge_engine_requests_waiting{${ONE}})`],
          ],
        }),
        graph({
          title: "Generation speed",
          description: "Tokens per second of generation time, all requests of an engine together.",
          queries: [
            [
              "{{replica}}",
              `sum by (replica) (rate(metalbridge_engine_generated_tokens_total{${ONE}}[$__rate_interval])) / sum by (replica) (rate(metalbridge_engine_generation_seconds_total{${ONE}}[$__rate_interval]))`,
            ],
          ],
        }),
        graph({
          title: "Prompt processing speed",
          description: "Tokens per second of prompt time; determines the time to first token.",
          queries: [
            [
              "{{replica}}",
              `sum by (replica) (rate(metalbridge_engine_prompt_tokens_total{${ONE}}[$__rate_interval])) / sum by (replica) (rate(metalbridge_engine_prompt_seconds_total{${ONE}}[$__rate_interval]))`,
            ],
          ],
        }),
        graph({
          title: "Draft tokens accepted, and KV cache in use",
          description: "If the service uses a draft model and its engine reports it.",
          unit: "percentunit",
          queries: [
            [
              "{{replica}} accepted",
              `sum by (replica) (rate(metalbridge_engine_draft_tokens_accepted_total{${ONE}}[$__rate_interval])) / sum by (replica) (rate(metalbridge_engine_draft_tokens_total{${ONE}}[$__rate_interval]))`,
            ],
            ["{{replica}} KV cache", `max by (replica) (metalbridge_engine_kv_cache_usage_ratio{${ONE}})`],
          ],
        }),
      ],
    },
    {
      title: "Replicas",
      panels: [
        graph({
          title: "Phases",
          description: "Replicas of this service by phase.",
          queries: [["{{phase}}", `sum by (phase) (metalbridge_replica_phase{${ONE}}) > 0`]],
        }),
        graph({
          title: "Memory: claim and footprint",
          description: "By replica.",
          unit: "bytes",
          queries: [
            ["{{replica}} claim", `max by (replica) (metalbridge_replica_memory_claim_bytes{${ONE}})`],
            ["{{replica}} taken", `max by (replica) (metalbridge_replica_memory_footprint_bytes{${ONE}})`],
          ],
        }),
        graph({
          title: "Restarts",
          description: "Restarts after unexpected exits.",
          queries: [
            [
              "{{replica}}",
              `sum by (replica) (increase(metalbridge_replica_restarts_total{${ONE}}[$__range]))`,
            ],
          ],
        }),
        graph({
          title: "Latency of one real token",
          description:
            "The agent's own requests: before the engine serves, and after suspicious log lines. 95th percentile.",
          unit: "s",
          queries: [
            [
              "{{replica}}",
              `histogram_quantile(0.95, sum by (replica, le) (rate(metalbridge_replica_probe_duration_seconds_bucket{${ONE}, probe="request"}[$__range])))`,
            ],
          ],
        }),
        graph({
          title: "From start to ready",
          description: "Startup time of the running engine.",
          unit: "s",
          queries: [["{{replica}}", `max by (replica) (metalbridge_replica_start_duration_seconds{${ONE}})`]],
        }),
        table({
          title: "Placement",
          description: "Host, engine and revision of each replica.",
          width: 8,
          queries: [["", `max by (host, replica, runtime, revision) (metalbridge_replica_info{${ONE}})`]],
        }),
      ],
    },
  ],
};
