/** The way of a replica or pod to Ready, as steps. Pure. */
import type { InferenceReplica, ReplicaPhase } from "../../../../src/api/inference-replica.ts";
import type { StateWord } from "../../../../src/console/rows.ts";
import { formatPercent } from "../../parts/format.ts";
import type { TimelineStep } from "../../parts/timeline.tsx";
import type { ServicePod } from "./pod.ts";

const LEVELS: Readonly<Record<ReplicaPhase, StateWord["level"]>> = {
  Pending: "busy",
  Fetching: "busy",
  Admitting: "busy",
  Starting: "busy",
  Ready: "ok",
  Draining: "busy",
  Stopped: "idle",
  Waiting: "warn",
  Backoff: "warn",
  Evicted: "warn",
  Failed: "bad",
};

export function levelOfPhase(phase: string | undefined): StateWord["level"] {
  return phase !== undefined && Object.hasOwn(LEVELS, phase) ? LEVELS[phase as ReplicaPhase] : "idle";
}

/** "Fetching 62 %" while the size is known. */
export function wordOfReplica({ status }: InferenceReplica): string {
  const { phase = "Pending", progress } = status ?? {};
  if (phase !== "Fetching" || progress?.totalBytes === undefined || progress.totalBytes === 0) return phase;
  return `${phase} ${formatPercent(Math.min(1, progress.bytes / progress.totalBytes))}`;
}

/** Phases in order; reasons within a phase are one step. Starts with the creation unless older transitions were dropped. */
export function stepsOfReplica(replica: InferenceReplica): readonly TimelineStep[] {
  const { metadata, status } = replica;
  const transitions = status?.transitions ?? [];
  const steps: TimelineStep[] = [];
  const createdMs = Date.parse(metadata.creationTimestamp ?? "");
  if (transitions.length < MAX_TRANSITIONS && transitions[0]?.phase !== "Pending")
    steps.push({ key: "created", word: "Pending", level: "busy", atMs: createdMs });
  for (const { at, phase, message } of transitions) {
    const last = steps.at(-1);
    const atMs = Date.parse(at);
    if (last?.word === phase) steps[steps.length - 1] = { ...last, message };
    else steps.push({ key: `${at} ${phase}`, word: phase, level: levelOfPhase(phase), atMs, message });
  }
  const last = steps.at(-1);
  const phase = status?.phase ?? "Pending";
  if (last === undefined || last.word !== phase) return steps;
  return [...steps.slice(0, -1), { ...last, word: wordOfReplica(replica) }];
}

/** As many as the agent keeps: the first ones may be gone. */
const MAX_TRANSITIONS = 10;

const POD_STEPS = [
  ["PodScheduled", "Scheduled"],
  ["Initialized", "Fetched"],
  ["ContainersReady", "Started"],
  ["Ready", "Ready"],
] as const;

/** The conditions of a pod that are reached, in order, and the first that is not. */
export function stepsOfPod({ metadata, status }: ServicePod): readonly TimelineStep[] {
  const createdMs = Date.parse(metadata.creationTimestamp ?? "");
  const steps: TimelineStep[] = [{ key: "created", word: "Pending", level: "busy", atMs: createdMs }];
  for (const [type, word] of POD_STEPS) {
    const condition = status?.conditions?.find((one) => one.type === type);
    if (condition?.status !== "True") break;
    const atMs = Date.parse(condition.lastTransitionTime ?? "");
    steps.push({ key: type, word, level: word === "Ready" ? "ok" : "busy", atMs });
  }
  return steps;
}

export interface PodState {
  readonly word: string;
  readonly level: StateWord["level"];
  readonly message: string;
}

/** What holds the pod up: a waiting container first, then a condition that is false. */
export function stateOfPod({ status }: ServicePod): PodState {
  const containers = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  for (const { state } of containers) {
    const { reason = "", message = "" } = state?.waiting ?? {};
    if (reason !== "" && reason !== "PodInitializing" && reason !== "ContainerCreating")
      return { word: reason, level: "bad", message };
  }
  const isReady = status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True");
  if (isReady === true) return { word: "Ready", level: "ok", message: "" };
  const unmet = status?.conditions?.find(
    ({ status: is, message }) => is !== "True" && message !== undefined && message !== "",
  );
  const word = status?.reason ?? unmet?.reason ?? status?.phase ?? "Pending";
  return {
    word,
    level: status?.phase === "Failed" || word === "Unschedulable" ? "bad" : "busy",
    message: status?.message ?? unmet?.message ?? "",
  };
}
