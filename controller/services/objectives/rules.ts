/** The objects that watch the service level objective of a service: recording rules with alerts, or the object of Pyrra. Pure. */
import { LABEL_SLO_RULES } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { metadataOf } from "../../../src/api/owned.ts";
import {
  FAILURE_CODES,
  FIRST_BYTE_METRIC,
  LATENCY_BUCKETS,
  REQUESTS_METRIC,
} from "../../../src/gateway/indicators.ts";
import { boundText } from "../../../src/http/metrics/render.ts";
import type {
  PrometheusRule,
  PrometheusRuleEntry,
  ServiceLevelObjective,
} from "../../../src/kube/workload-objects.ts";
import type { RuleLabels } from "./config.ts";

type Slo = NonNullable<InferenceService["spec"]["slo"]>;

export interface Objective {
  readonly service: InferenceService;
  readonly slo: Slo;
  /** The bucket that holds the latency threshold. Undefined for availability. */
  readonly bucket: number | undefined;
  readonly labels: RuleLabels;
}

const UNIT_SECONDS = { s: 1, m: 60, h: 3_600, d: 86_400, w: 604_800 };
type Unit = keyof typeof UNIT_SECONDS;
const MONTH_SECONDS = 30 * UNIT_SECONDS.d;
/** A rate needs two samples, also if one of those that come every 30 s is late. */
const MIN_SECONDS = 120;
/**
 * An alert fires if both windows burn the budget `factor` times as fast as the objective allows. The seconds are those of an objective
 * over 30 days: 2 %, 5 % and twice 10 % of its budget.
 */
const BURNS = [
  { factor: 14.4, longSeconds: 3_600, shortSeconds: 300, severity: "critical" },
  { factor: 6, longSeconds: 21_600, shortSeconds: 1_800, severity: "critical" },
  { factor: 3, longSeconds: 86_400, shortSeconds: 7_200, severity: "warning" },
  { factor: 1, longSeconds: 259_200, shortSeconds: 21_600, severity: "warning" },
];
const ERRORS_RECORD = "metalbridge:slo_errors:ratio_rate";
const BUDGET_RECORD = "metalbridge:slo_error_budget:remaining_ratio";

/** The smallest bucket that holds the threshold of the latency; undefined if none does. */
export function bucketOf({ latencyThreshold = "" }: Slo): number | undefined {
  const [, count = "", unit = ""] = /^([0-9.]+)(ms|s|m)$/.exec(latencyThreshold) ?? [];
  const seconds = unit === "ms" ? Number(count) / 1_000 : Number(count) * UNIT_SECONDS[unit as Unit];
  return LATENCY_BUCKETS.find((bound) => bound >= seconds);
}

export function nameOf({ service, slo }: Pick<Objective, "service" | "slo">): string {
  return slo.name ?? metadataOf(service).name;
}

/** The object of Pyrra, which copies its labels to the rules that it makes. */
export function pyrraObjective(objective: Objective): ServiceLevelObjective {
  const { service, slo, bucket } = objective;
  const total = { metric: totalOf(objective) };
  const { namespace, name } = service.metadata;
  return {
    apiVersion: "pyrra.dev/v1alpha1",
    kind: "ServiceLevelObjective",
    metadata: namedMetadata(objective),
    spec: {
      description: `${goalOf(objective)} of InferenceService ${namespace}/${name}, counted by the gateway.`,
      target: slo.objective,
      window: slo.window,
      indicator:
        bucket === undefined
          ? { ratio: { errors: { metric: errorsOf(objective) }, total } }
          : { latency: { success: { metric: fastOf(objective, bucket) }, total } },
    },
  };
}

export function prometheusRule(objective: Objective): PrometheusRule {
  const { slo } = objective;
  const name = nameOf(objective);
  const metadata = namedMetadata(objective);
  const windowSeconds = secondsOf(slo.window);
  const budget = (100 - Number(slo.objective)) / 100;
  const labels = seriesLabels(objective);
  const scaled = (seconds: number) =>
    durationText(Math.max(MIN_SECONDS, Math.round((seconds * windowSeconds) / MONTH_SECONDS)));
  const burns = BURNS.map((burn) => ({
    ...burn,
    long: scaled(burn.longSeconds),
    short: scaled(burn.shortSeconds),
    // More errors than requests are impossible, so an alert with a higher threshold could not fire.
    threshold: rounded(burn.factor * budget),
  })).filter(({ threshold }) => threshold < 1);
  const windows = [...new Set(burns.flatMap(({ short, long }) => [short, long]))];
  const recorded = windows.map((window) => ({
    record: ERRORS_RECORD,
    expr: errorRatio(objective, window),
    labels: { ...labels, window },
  }));
  const remaining = `1 - ${errorRatio(objective, slo.window)} / ${rounded(budget)}`;
  return {
    apiVersion: "monitoring.coreos.com/v1",
    kind: "PrometheusRule",
    // The controller watches only rules with this label, because Pyrra makes rules with the others.
    metadata: { ...metadata, labels: { ...metadata.labels, [LABEL_SLO_RULES]: "true" } },
    spec: {
      groups: [
        { name: `${name}-burn`, rules: [...recorded, ...burns.map((burn) => alertOf(objective, burn))] },
        // A query over the whole window costs more, and its result changes slowly.
        {
          name: `${name}-budget`,
          interval: "5m",
          rules: [{ record: BUDGET_RECORD, expr: remaining, labels }],
        },
      ],
    },
  };
}

interface Burn {
  readonly factor: number;
  readonly long: string;
  readonly short: string;
  readonly threshold: number;
  readonly severity: string;
}

function alertOf(
  objective: Objective,
  { factor, long, short, threshold, severity }: Burn,
): PrometheusRuleEntry {
  const { namespace, service, slo } = seriesLabels(objective);
  const series = (window: string) =>
    `${ERRORS_RECORD}{namespace="${namespace}",service="${service}",slo="${slo}",window="${window}"}`;
  return {
    alert: "ErrorBudgetBurn",
    expr: `${series(long)} > ${threshold} and ignoring (window) ${series(short)} > ${threshold}`,
    labels: { namespace, service, slo, long, short, severity },
    annotations: {
      summary: `InferenceService ${namespace}/${service} burns the error budget of ${slo}.`,
      description: `For ${long}, {{ $value | humanizePercentage }} of the requests failed the objective: ${goalOf(objective)} within ${objective.slo.window}. This is more than ${factor} times what its error budget allows.`,
    },
  };
}

/** Alerts and series have these labels, like those of Pyrra. */
function seriesLabels({ service, slo }: Objective) {
  const { namespace = "default", name } = service.metadata;
  return { namespace, service: name, slo: nameOf({ service, slo }) };
}

function namedMetadata(objective: Objective) {
  const metadata = metadataOf(objective.service);
  return {
    ...metadata,
    name: nameOf(objective),
    labels: { ...objective.labels, ...metadata.labels },
  };
}

function goalOf({ slo, bucket }: Objective): string {
  const good = bucket === undefined ? "answered" : `answered within ${bucket} s`;
  return `${slo.objective} % of the requests ${good}`;
}

/** Between 0 and 1; no result without requests. */
function errorRatio(objective: Objective, window: string): string {
  const { bucket } = objective;
  const total = `(sum(rate(${totalOf(objective)}[${window}])) > 0)`;
  const sum = (metric: string) => `(sum(rate(${metric}[${window}])) or vector(0))`;
  if (bucket === undefined) return `${sum(errorsOf(objective))} / ${total}`;
  // The counts of two metrics are not read at the same instant.
  return `clamp_min(1 - ${sum(fastOf(objective, bucket))} / ${total}, 0)`;
}

/** Without clients that left before the response, which nothing is known about. */
function totalOf(objective: Objective): string {
  return `${REQUESTS_METRIC}{${selectorOf(objective)},code!="0"}`;
}

/** 429: the queue of the service is full. Callers above their own limits are not counted. */
function errorsOf(objective: Objective): string {
  return `${REQUESTS_METRIC}{${selectorOf(objective)},code=~"${FAILURE_CODES}"}`;
}

function fastOf(objective: Objective, bucket: number): string {
  return `${FIRST_BYTE_METRIC}_bucket{${selectorOf(objective)},le="${boundText(bucket)}"}`;
}

function selectorOf(objective: Objective): string {
  const { namespace, service } = seriesLabels(objective);
  return `namespace="${namespace}",service="${service}"`;
}

function secondsOf(window: string): number {
  return Number.parseInt(window, 10) * UNIT_SECONDS[window.slice(-1) as Unit];
}

/** In the largest unit that divides it. */
function durationText(seconds: number): string {
  const units = ["d", "h", "m", "s"] as const;
  const unit = units.find((one) => seconds % UNIT_SECONDS[one] === 0) ?? "s";
  return `${seconds / UNIT_SECONDS[unit]}${unit}`;
}

/** Without the noise of binary fractions. */
function rounded(value: number): number {
  return Number(value.toPrecision(6));
}
