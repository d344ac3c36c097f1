/** Services and their replicas as their objects say. */
import { getCondition, isConditionTrue } from "../../src/api/conditions.ts";
import { REPLICA_PHASES } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { SERVICE_PHASES } from "../../src/api/inference-service/status.ts";
import { type Family, known, type Labels, type Sample, stateSet } from "../../src/metrics/family.ts";
import type { ControllerFacts } from "./facts.ts";

const LABELS = ["namespace", "service"] as const;

/** Reasons of the condition Progressing. */
const ROLLOUT_STATES: Readonly<Record<string, string>> = {
  NewRevisionRollingOut: "rolling",
  RolloutComplete: "complete",
  RolloutStopped: "stopped",
};

function each(read: (service: InferenceService, labels: Labels) => Iterable<Sample>) {
  return function* ({ leader }: ControllerFacts): Iterable<Sample> {
    for (const service of leader?.services ?? []) {
      const { namespace = "default", name } = service.metadata;
      yield* read(service, { namespace, service: name });
    }
  };
}

export const serviceFamilies: readonly Family<ControllerFacts>[] = [
  {
    name: "metalbridge_service_phase",
    type: "gauge",
    help: "1 for the phase that the InferenceService is in, 0 for the others.",
    labels: [...LABELS, "phase"],
    read: each(({ status }, labels) => stateSet(labels, "phase", SERVICE_PHASES, status?.phase ?? "Pending")),
  },
  {
    name: "metalbridge_service_replicas_desired",
    type: "gauge",
    help: "Replicas wanted now; 0 while suspended.",
    labels: LABELS,
    read: each(({ status }, labels) => known(status?.desiredReplicas, labels)),
  },
  {
    name: "metalbridge_service_replicas_ready",
    type: "gauge",
    help: "Replicas that answer: phase Ready on a host that is reachable.",
    labels: LABELS,
    read: each(({ status }, labels) => known(status?.readyReplicas, labels)),
  },
  {
    name: "metalbridge_service_replicas_updated",
    type: "gauge",
    help: "Replicas of the newest revision.",
    labels: LABELS,
    read: each(({ status }, labels) => known(status?.updatedReplicas, labels)),
  },
  {
    name: "metalbridge_service_rollout",
    type: "gauge",
    help: "1 for the state that the service's rollout is in: rolling, complete, stopped (the new revision fails and the old one serves on).",
    labels: [...LABELS, "state"],
    read: each(({ status }, labels) => {
      const reason = getCondition(status?.conditions, "Progressing")?.reason ?? "";
      return stateSet(labels, "state", Object.values(ROLLOUT_STATES), ROLLOUT_STATES[reason]);
    }),
  },
  {
    name: "metalbridge_service_queue_position",
    type: "gauge",
    help: "Place in the queue for capacity, 1 being next; absent for a service that does not wait.",
    labels: LABELS,
    read: each(({ status }, labels) =>
      known(status?.queuePosition === 0 ? undefined : status?.queuePosition, labels),
    ),
  },
  {
    name: "metalbridge_controller_waiting_services",
    type: "gauge",
    help: "Services that wait for capacity.",
    read: ({ leader }) => known(leader?.waiting),
  },
  {
    name: "metalbridge_controller_replicas",
    type: "gauge",
    help: "InferenceReplicas by phase, and by whether the host is reachable: Ready means little where it is not.",
    labels: ["phase", "reachable"],
    read: ({ leader }) => (leader === undefined ? [] : countReplicas(leader.replicas)),
  },
];

function* countReplicas(replicas: NonNullable<ControllerFacts["leader"]>["replicas"]): Iterable<Sample> {
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
