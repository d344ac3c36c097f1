/** The path of services on hosts and in pods: one side is preferred, and the other takes the replicas that do not fit there. */

import { getCondition, setCondition } from "../../../src/api/conditions.ts";
import type { InferenceService, InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import { isBeingDeleted } from "../../../src/api/metadata.ts";
import { isoSeconds } from "../../../src/util/iso-seconds.ts";
import type { ControllerPorts } from "../../frame/ports.ts";
import { type LiveService, type PathResult, type ServicePath, soonest } from "../../frame/service/path.ts";
import { readyText } from "../../frame/service/phase.ts";
import { spillOver } from "./split.ts";

interface Parts extends Pick<ControllerPorts, "apply" | "clock"> {
  readonly hosts: ServicePath;
  readonly pods: ServicePath;
}

export function createBothPath(parts: Parts): ServicePath {
  const { hosts, pods } = parts;
  return {
    on: "Auto",
    names: "pods",
    parts: [hosts, pods],
    prepare: (live) => {
      const prefersPods = live.service.spec.placement.prefer === "Pods";
      const share = prefersPods ? live.own.replicas.length : live.service.spec.replicas;
      hosts.prepare(withReplicas(live, share));
      pods.prepare(live);
    },
    reconcile: (live) => reconcile(parts, live),
    release: (key, isDeleted) => {
      hosts.release(key, isDeleted);
      pods.release(key, isDeleted);
    },
    // The parts report what serves and remove their objects.
    serving: () => 0,
    leave: () => [],
  };
}

async function reconcile(parts: Parts, live: LiveService): Promise<PathResult> {
  const { clock, hosts, pods } = parts;
  const { service, own } = live;
  const desired = service.spec.suspend ? 0 : service.spec.replicas;
  const prefersPods = service.spec.placement.prefer === "Pods";
  const [first, second] = prefersPods ? [pods, hosts] : [hosts, pods];
  const preferred = await first.reconcile(live);
  const onHosts = own.replicas.filter((replica) => !isBeingDeleted(replica)).length;
  const inPods = own.deployments[0]?.spec.replicas ?? 0;
  const { readyReplicas: ready = 0 } = preferred.status;
  const { lacking } = preferred;
  const share = spillOver(desired, { ready, lacking }, prefersPods ? onHosts : inPods);
  const other = await second.reconcile(withReplicas(live, share));
  const results = [preferred, other];
  await leaveDrainedHosts(parts, results, desired);
  const status = merged(service, { desired, preferred, other, share }, isoSeconds(clock.nowMs()));
  return {
    status,
    obstacle: preferred.obstacle.at === "none" ? other.obstacle : preferred.obstacle,
    rejections: results.flatMap(({ rejections }) => rejections),
    lacking: other.lacking,
    ...soonest(results.map(({ recheckAfterMs }) => recheckAfterMs)),
  };
}

/** Removes replicas that fit no other host from draining hosts, once pods serve in their place. */
async function leaveDrainedHosts(
  ports: Parts,
  results: readonly PathResult[],
  desired: number,
): Promise<void> {
  const ready = results.reduce((sum, { status }) => sum + (status.readyReplicas ?? 0), 0);
  const leaving = results.flatMap(({ staying = [] }) => staying).slice(0, Math.max(0, ready - desired));
  const because = "its host is being drained, and a pod serves in its place";
  await ports.apply(leaving.map((object) => ({ do: "remove", what: "replicas", object, because })));
}

function withReplicas(live: LiveService, replicas: number): LiveService {
  return { ...live, service: { ...live.service, spec: { ...live.service.spec, replicas } } };
}

interface Merge {
  readonly desired: number;
  readonly preferred: PathResult;
  readonly other: PathResult;
  readonly share: number;
}

/** Phases of a side that has reached its target, or can do no more for now. */
const SETTLED = new Set(["Ready", "WaitingForCapacity", "WaitingForGPU", "Stopped", "Suspended", "Idle"]);

/** Reports the status of a side with a change or a problem, or else of the side that has the other's overflow. */
function merged(
  service: InferenceService,
  { desired, preferred, other, share }: Merge,
  nowIso: string,
): InferenceServiceStatus {
  const sum = (field: "replicas" | "readyReplicas" | "updatedReplicas") =>
    (preferred.status[field] ?? 0) + (other.status[field] ?? 0);
  const ready = sum("readyReplicas");
  const sides = share > 0 ? [other.status, preferred.status] : [preferred.status];
  const unsettled = sides.find(({ phase = "Pending" }) => !SETTLED.has(phase));
  const shown = unsettled ?? sides[0] ?? preferred.status;
  const counts = {
    replicas: sum("replicas"),
    readyReplicas: ready,
    updatedReplicas: sum("updatedReplicas"),
    desiredReplicas: desired,
    ready: `${ready}/${desired}`,
  };
  const { currentRevision, updateRevision, placement } = { ...other.status, ...preferred.status };
  const revisions = { currentRevision, updateRevision, placement };
  const conditions = share > 0 ? withWorst(shown, sides) : shown.conditions;
  if (desired === 0 || ready < desired || unsettled !== undefined)
    return { ...shown, ...counts, ...revisions, conditions };
  const onOther = other.status.readyReplicas ?? 0;
  const where = service.spec.placement.prefer === "Pods" ? "on hosts" : "in pods";
  const message = `${readyText(ready, desired)}${onOther === 0 ? "" : `, ${onOther} of them ${where}`}`;
  const now = { reason: "InferenceReady", message, observedGeneration: service.metadata.generation };
  const updates = [
    { type: "Ready", status: "True" as const, ...now },
    { type: "Available", status: "True" as const, ...now },
    { type: "Progressing", status: "False" as const, ...now },
    { type: "Degraded", status: "False" as const, ...now, reason: "AsExpected", message: "" },
    { type: "Placed", status: "True" as const, ...now, reason: "AllPlaced", message: "" },
  ];
  const settled = updates.reduce((all, update) => setCondition(all, update, nowIso), conditions ?? []);
  const { queuePosition: _position, waitingFor: _waiting, ...rest } = shown;
  return { ...rest, ...counts, ...revisions, phase: "Ready", ...now, conditions: settled };
}

/** Conditions that each side has, with the status that needs attention and must not be hidden by the other side. */
const WORST = {
  KeyRequired: "False",
  Encrypted: "False",
  SpecHonored: "False",
  CPUFallback: "True",
  Warnings: "True",
  SpeedKnown: "False",
} as const;

function withWorst(
  shown: InferenceServiceStatus,
  sides: readonly InferenceServiceStatus[],
): InferenceServiceStatus["conditions"] {
  const own = shown.conditions ?? [];
  const of = (type: string) => sides.flatMap(({ conditions }) => getCondition(conditions, type) ?? []);
  const worst = Object.entries(WORST).flatMap(([type, bad]) => {
    const found = of(type);
    return found.find(({ status }) => status === bad) ?? found[0] ?? [];
  });
  const types = new Set(worst.map(({ type }) => type));
  return [...own.filter(({ type }) => !types.has(type)), ...worst].sort((a, b) => (a.type < b.type ? -1 : 1));
}
