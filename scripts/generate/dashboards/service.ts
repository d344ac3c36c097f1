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
          description: "Of the InferenceService.",
          unit: "none",
          queries: [["{{phase}}", `max by (phase) (metalbridge_service_phase{${ONE}}) == 1`]],
        }),
        stat({
          title: "Replicas ready",
          description: "Phase Ready on a host that is reachable.",
          queries: [["", `max(metalbridge_service_replicas_ready{${ONE}})`]],
        }),
        stat({
          title: "Replicas wanted",
          description: "0 while suspended.",
          queries: [["", `max(metalbridge_service_replicas_desired{${ONE}})`]],
        }),
        stat({
          title: "Of the newest revision",
          description: "Replicas that a rollout has brought up to date.",
          queries: [["", `max(metalbridge_service_replicas_updated{${ONE}})`]],
        }),
        stat({
          title: "Rollout",
          description: "stopped: the new revision fails and the old one serves on.",
          unit: "none",
          queries: [["{{state}}", `max by (state) (metalbridge_service_rollout{${ONE}}) == 1`]],
        }),
        stat({
          title: "Place in the queue",
          description: "Empty for a service that does not wait.",
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
          description: "Computed, and taken from the engine's cache.",
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
          description: "Worked on, and waiting.",
          queries: [
            ["{{replica}} running", `sum by (replica) (metalbridge_engine_requests_running{${ONE}})`],
            ["{{replica}} waiting", `sum by (replica) (metalbridge_engine_requests_waiting{${ONE}})`],
          ],
        }),
        graph({
          title: "Speed while generating",
          description: "Tokens per second of generating time, all requests of an engine together.",
          queries: [
            [
              "{{replica}}",
              `sum by (replica) (rate(metalbridge_engine_generated_tokens_total{${ONE}}[$__rate_interval])) / sum by (replica) (rate(metalbridge_engine_generation_seconds_total{${ONE}}[$__rate_interval]))`,
            ],
          ],
        }),
        graph({
          title: "Speed while reading prompts",
          description: "Tokens per second of prompt time: what the time to the first token depends on.",
          queries: [
            [
              "{{replica}}",
              `sum by (replica) (rate(metalbridge_engine_prompt_tokens_total{${ONE}}[$__rate_interval])) / sum by (replica) (rate(metalbridge_engine_prompt_seconds_total{${ONE}}[$__rate_interval]))`,
            ],
          ],
        }),
        graph({
          title: "Draft tokens accepted, and KV cache in use",
          description: "Where the service uses a draft model, and where its engine tells.",
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
          title: "Memory: claim and what is really taken",
          description: "By replica.",
          unit: "bytes",
          queries: [
            ["{{replica}} claim", `max by (replica) (metalbridge_replica_memory_claim_bytes{${ONE}})`],
            ["{{replica}} taken", `max by (replica) (metalbridge_replica_memory_footprint_bytes{${ONE}})`],
          ],
        }),
        graph({
          title: "Restarts",
          description: "How often the engine ended unasked.",
          queries: [
            [
              "{{replica}}",
              `sum by (replica) (increase(metalbridge_replica_restarts_total{${ONE}}[$__range]))`,
            ],
          ],
        }),
        graph({
          title: "One real token, answer time",
          description:
            "The agent's own requests: before the engine serves, and when its log looks bad. 95th percentile.",
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
          description: "Of the engine that runs now.",
          unit: "s",
          queries: [["{{replica}}", `max by (replica) (metalbridge_replica_start_duration_seconds{${ONE}})`]],
        }),
        table({
          title: "Where they run",
          description: "Host, engine, revision.",
          width: 8,
          queries: [["", `max by (host, replica, runtime, revision) (metalbridge_replica_info{${ONE}})`]],
        }),
      ],
    },
  ],
};
