/** The way of a replica or pod to Ready, as steps. Pure. */
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { levelOfPhase, stateOfReplica } from "../../../../src/verdicts/replica.ts";
import type { TimelineStep } from "../../parts/states.tsx";
import type { ServicePod } from "./objects.ts";

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
  const { word, level } = stateOfReplica(replica);
  return [...steps.slice(0, -1), { ...last, word, level }];
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
