/** Metrics from InferenceService and InferenceReplica objects. */
import { getCondition, isConditionTrue } from "../../../src/api/conditions.ts";
import { REPLICA_PHASES } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { SERVICE_PHASES } from "../../../src/api/inference-service/status.ts";
import {
  type Labels,
  type MetricFamily,
  type MetricSample,
  sampleIfKnown,
  stateSet,
} from "../../../src/http/metrics/family.ts";
import { MODEL_LOAD_SECONDS, sumSamples, TOKENS_PER_SECOND } from "../../../src/http/metrics/live.ts";
import type { ControllerFacts } from "./facts.ts";

const LABELS = ["namespace", "service"] as const;

/** Rollout states by the reason of condition Progressing. */
const ROLLOUT_STATES: Readonly<Record<string, string>> = {
  NewRevisionRollingOut: "rolling",
  RolloutComplete: "complete",
  RolloutStopped: "stopped",
};

function each(read: (service: InferenceService, labels: Labels) => Iterable<MetricSample>) {
  return function* ({ leader }: ControllerFacts): Iterable<MetricSample> {
    for (const service of leader?.services ?? []) {
      const { namespace = "default", name } = service.metadata;
      yield* read(service, { namespace, service: name });
    }
  };
}

export const serviceFamilies: readonly MetricFamily<ControllerFacts>[] = [
  {
    name: "metalbridge_service_phase",
    type: "gauge",
    help: "1 for the current phase of the InferenceService, 0 for the others.",
    labels: [...LABELS, "phase"],
    read: each(({ status }, labels) => stateSet(labels, "phase", SERVICE_PHASES, status?.phase ?? "Pending")),
  },
  {
    name: "metalbridge_service_replicas_desired",
    type: "gauge",
    help: "Desired replicas; 0 while suspended.",
    labels: LABELS,
    read: each(({ status }, labels) => sampleIfKnown(status?.desiredReplicas, labels)),
  },
  {
    name: "metalbridge_service_replicas_ready",
    type: "gauge",
    help: "Ready replicas: phase Ready on a reachable host.",
    labels: LABELS,
    read: each(({ status }, labels) => sampleIfKnown(status?.readyReplicas, labels)),
  },
  {
    name: "metalbridge_service_replicas_updated",
    type: "gauge",
    help: "Replicas of the newest revision.",
    labels: LABELS,
    read: each(({ status }, labels) => sampleIfKnown(status?.updatedReplicas, labels)),
  },
  {
    name: "metalbridge_service_rollout",
    type: "gauge",
    help: "1 for the current state of the service's rollout: rolling, complete, stopped (the new revision fails and the old one keeps serving).",
    labels: [...LABELS, "state"],
    read: each(({ status }, labels) => {
      const reason = getCondition(status?.conditions, "Progressing")?.reason ?? "";
      return stateSet(labels, "state", Object.values(ROLLOUT_STATES), ROLLOUT_STATES[reason]);
    }),
  },
  {
    name: "metalbridge_service_queue_position",
    type: "gauge",
    help: "Position in the scheduling queue, 1 is next; not reported if the service is not queued.",
    labels: LABELS,
    read: each(({ status }, labels) =>
      sampleIfKnown(status?.queuePosition === 0 ? undefined : status?.queuePosition, labels),
    ),
  },
  {
    name: "metalbridge_controller_waiting_services",
    type: "gauge",
    help: "Services queued for capacity, by what they wait for: hosts, or nodes for pods.",
    labels: ["queue"],
    read: function* ({ leader }) {
      for (const [queue, value] of Object.entries(leader?.waiting ?? {})) yield { labels: { queue }, value };
    },
  },
  {
    name: "metalbridge_controller_replicas",
    type: "gauge",
    help: "InferenceReplicas by phase, and by whether the host is reachable: the phase of an unreachable host is stale.",
    labels: ["phase", "reachable"],
    read: ({ leader }) => (leader === undefined ? [] : countReplicas(leader.replicas)),
  },
  { ...TOKENS_PER_SECOND, read: (facts) => sumSamples(podSpeeds(facts)) },
  { ...MODEL_LOAD_SECONDS, read: ({ leader }) => leader?.podLoads ?? [] },
];

function* podSpeeds({ leader }: ControllerFacts): Iterable<Required<MetricSample>> {
  for (const { tokensPerSecond: value, ...labels } of leader?.podSpeeds ?? []) yield { labels, value };
}

function* countReplicas(
  replicas: NonNullable<ControllerFacts["leader"]>["replicas"],
): Iterable<MetricSample> {
  const counts = new Map<string, number>();
  for (const { status } of replicas) {
    const key = `${status?.phase ?? "Pending"} ${isConditionTrue(status?.conditions, "HostReachable")}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  for (const phase of REPLICA_PHASES) {
    for (const reachable of ["true", "false"])
      yield { labels: { phase, reachable }, value: counts.get(`${phase} ${reachable}`) ?? 0 };
  }
}
