/** Determines the phase of a service on hosts, with its reason and message. Pure and total. */
import { getCondition, isConditionTrue } from "../../../src/api/conditions.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { codeOfRejections, describeRejections } from "../../frame/apply/rejection.ts";
import {
  hasServed,
  isReadingModel,
  obstructedPhase,
  type PhaseStatus,
  readyText,
  stoppedPhase,
} from "../../frame/service/phase.ts";
import { type HostsStatusFacts, readyCount } from "./facts.ts";
import { revisionProgressOf } from "./progress.ts";

/** The first phase that applies: obstacles, stopped services, problems, and then what is still missing. */
export function phaseOf(facts: HostsStatusFacts): PhaseStatus {
  return (
    obstructedPhase(facts.obstacle, facts.draft.observed.service) ??
    stoppedPhase(facts.desired, facts.draft.observed.service) ??
    blocked(facts) ??
    waitingForCapacity(facts) ??
    rejected(facts) ??
    ready(facts) ??
    changing(facts) ??
    incomplete(facts)
  );
}

/** For example "1 of 2 replicas ready". */
export function readyReplicasText(facts: HostsStatusFacts): string {
  return readyText(readyCount(facts), facts.desired);
}

/** Running replicas still serve without their Model, but they can be neither replaced nor scaled. */
function blocked(facts: HostsStatusFacts): PhaseStatus | undefined {
  const { resolution, observed } = facts.draft;
  if (resolution.at !== "blocked") return undefined;
  const { code: reason, message, isFinal } = resolution;
  const count = readyCount(facts);
  if (count === 0) return { phase: isFinal ? "Failed" : "Pending", reason, message };
  if (!isReadingModel(resolution, observed.model))
    return { phase: "Degraded", reason, message: `${readyReplicasText(facts)}; ${message}` };
  return count < facts.desired ? { phase: "Progressing", reason, message } : undefined;
}

function waitingForCapacity(facts: HostsStatusFacts): PhaseStatus | undefined {
  const [first] = facts.waiting;
  if (first === undefined || readyCount(facts) >= facts.desired) return undefined;
  return { phase: "WaitingForCapacity", reason: first.code, message: first.message };
}

/** Applies even if every replica is ready, because objects of the service are missing. */
function rejected(facts: HostsStatusFacts): PhaseStatus | undefined {
  const { rejections = [] } = facts;
  const reason = codeOfRejections(rejections);
  if (reason === undefined) return undefined;
  const phase = readyCount(facts) > 0 ? "Degraded" : "Pending";
  return { phase, reason, message: describeRejections(rejections) };
}

function ready(facts: HostsStatusFacts): PhaseStatus | undefined {
  if (readyCount(facts) < facts.desired) return undefined;
  const { resolution } = facts.draft;
  const ignored = resolution.at === "resolved" ? resolution.unhonored : [];
  const note = ignored.length === 0 ? "" : `; ignored: ${ignored.join(", ")}`;
  return (
    rollingOut(facts) ?? {
      phase: "Ready",
      reason: "InferenceReady",
      message: `${readyReplicasText(facts)}${note}`,
    }
  );
}

function rollingOut(facts: HostsStatusFacts): PhaseStatus | undefined {
  const { at, message } = revisionProgressOf(facts);
  if (at === "stopped") return { phase: "Degraded", reason: "RolloutStopped", message };
  return at === "rolling" ? { phase: "Progressing", reason: "NewRevisionRollingOut", message } : undefined;
}

/** For replicas that are missing because of a rollout that is in progress, or that stopped while others serve. */
function changing(facts: HostsStatusFacts): PhaseStatus | undefined {
  const { draft, ending } = facts;
  if (draft.rollout.state.old === 0 && ending.length === 0) return undefined;
  return readyCount(facts) > 0 || ending.length > 0 ? rollingOut(facts) : undefined;
}

function incomplete(facts: HostsStatusFacts): PhaseStatus {
  const { worst, draft } = facts;
  const { phase, reason, text } = describeWorst(worst);
  if (phase === "Failed" && readyCount(facts) === 0) {
    return { phase, reason, message: `${readyReplicasText(facts)}; ${text}` };
  }
  const starting = hasServed(draft.observed.service) ? "Progressing" : "Creating";
  return {
    phase: isDegraded(facts) ? "Degraded" : starting,
    reason,
    message: [readyReplicasText(facts), ...(text === "" ? [] : [text])].join("; "),
  };
}

function isDegraded(facts: HostsStatusFacts): boolean {
  const phase = facts.worst?.status?.phase;
  return phase === "Failed" || phase === "Backoff" || phase === "Evicted" || hasLostReplicas(facts);
}

/** True during an outage, unlike a start or a scale-up: fewer replicas are ready than before, until all are ready again. */
export function hasLostReplicas(facts: HostsStatusFacts): boolean {
  const { metadata, status } = facts.draft.observed.service;
  const { currentRevision, readyReplicas = 0 } = status ?? {};
  // A rollout takes replicas down within maxUnavailable.
  if (currentRevision !== undefined && currentRevision !== facts.draft.input.revision) return false;
  if (readyCount(facts) < Math.min(readyReplicas, facts.desired)) return true;
  if (status?.observedGeneration !== metadata.generation) return false;
  const wasShort = status?.phase === "Degraded" || status?.phase === "WaitingForCapacity";
  return wasShort && isConditionTrue(status?.conditions, "Degraded");
}

function describeWorst(replica: InferenceReplica | undefined) {
  const { phase, reason, message = "", conditions } = replica?.status ?? {};
  if (replica === undefined || phase === undefined) return { phase, reason: "ReplicasNotReady", text: "" };
  const subject = `${replica.metadata.name} on ${replica.spec.template.hostName}`;
  if (phase !== "Ready") {
    const state = message === "" ? phase : `${phase}: ${message}`;
    return { phase, reason: asReason(reason), text: `${subject} is ${state}` };
  }
  // The agent last reported Ready, but its host is unreachable.
  const reachable = getCondition(conditions, "HostReachable");
  const detail = reachable?.message ?? "reachability of its host not known yet";
  return { phase, reason: asReason(reachable?.reason), text: `${subject}: ${detail}` };
}

/** The reason of a condition must be one word, which the agent's error codes are. */
function asReason(reason: string | undefined): string {
  return reason !== undefined && /^[A-Za-z][A-Za-z0-9_]*$/.test(reason) ? reason : "ReplicasNotReady";
}
