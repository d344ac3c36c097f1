/** Metrics of keys: usage, authentication, limits. */
import type { UsageRow } from "../../src/gateway/usage.ts";
import { flag, type Labels, type MetricFamily, sampleIfKnown } from "../../src/http/metrics/family.ts";

export interface UsageFacts {
  /** Rows since the start, in a bounded number. */
  readonly usage: readonly UsageRow[];
  readonly usageWriteFailures: number;
  /** Undefined if no shared counters are configured. */
  readonly areCountersShared: boolean | undefined;
}

export interface KeyFacts extends UsageFacts {
  readonly keys: { readonly valid: number; readonly invalid: number };
}

const OF = ["key", "namespace", "service", "host"];

export const usageFamilies: readonly MetricFamily<KeyFacts>[] = [
  {
    name: "metalbridge_gateway_tokens_total",
    type: "counter",
    help: "Tokens by key, service, and host or node; type input includes cached, which are the tokens of prompts that were not computed again.",
    labels: [...OF, "type"],
    *read({ usage }) {
      for (const row of usage) {
        yield { labels: { ...labelsOf(row), type: "input" }, value: row.tokensIn };
        yield { labels: { ...labelsOf(row), type: "cached" }, value: row.tokensCached };
        yield { labels: { ...labelsOf(row), type: "output" }, value: row.tokensOut };
      }
    },
  },
  {
    name: "metalbridge_gateway_key_requests_total",
    type: "counter",
    help: "Requests that a replica processed, by key, service, and host or node.",
    labels: OF,
    *read({ usage }) {
      for (const row of usage) yield { labels: labelsOf(row), value: row.requests };
    },
  },
  {
    name: "metalbridge_gateway_estimated_requests_total",
    type: "counter",
    help: "Requests whose tokens were estimated, because the client left before the engine reported them.",
    labels: OF,
    *read({ usage }) {
      for (const row of usage) yield { labels: labelsOf(row), value: row.estimatedRequests };
    },
  },
  {
    name: "metalbridge_gateway_usage_write_failures_total",
    type: "counter",
    help: "Failed writes of the usage record, which are retried automatically.",
    read: ({ usageWriteFailures }) => sampleIfKnown(usageWriteFailures),
  },
  {
    name: "metalbridge_gateway_keys",
    type: "gauge",
    help: "Secrets that are labeled as keys, by state; invalid ones give no access.",
    labels: ["state"],
    *read({ keys }) {
      yield { labels: { state: "valid" }, value: keys.valid };
      yield { labels: { state: "invalid" }, value: keys.invalid };
    },
  },
  {
    name: "metalbridge_gateway_shared_counters_up",
    type: "gauge",
    help: "1 while limits are counted together with other gateways, 0 while the server of the counters is unavailable.",
    read: ({ areCountersShared }) => (areCountersShared === undefined ? [] : flag(areCountersShared)),
  },
];

function labelsOf({ key, namespace, model, host }: UsageRow): Labels {
  return { key, namespace, service: model, host };
}
