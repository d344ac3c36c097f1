/** The phase of a service, with the code and the sentence that go with it. Pure and total. */
import { getCondition } from "../../../src/api/conditions.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import { codeOfRejections, tellRejections } from "../apply/rejection.ts";
import { readyCount, type StatusFacts } from "./facts.ts";
import { progressOf } from "./progress.ts";

export interface PhaseWord {
  readonly phase: NonNullable<InferenceServiceStatus["phase"]>;
  readonly reason: string;
  readonly message: string;
}

/** The first that applies: obstacles, then what was asked for, then what keeps it from being so, then what is missing. */
export function phaseOf(facts: StatusFacts): PhaseWord {
  return (
    obstacleWord(facts) ??
    stoppedWord(facts) ??
    lackWord(facts) ??
    rejectionWord(facts) ??
    readyWord(facts) ??
    changingWord(facts) ??
    troubleWord(facts)
  );
}

function obstacleWord({ obstacle, draft }: StatusFacts): PhaseWord | undefined {
  switch (obstacle.at) {
    case "none":
      return undefined;
    case "nameTaken":
      return { phase: "Failed", reason: "ServiceNameTaken", message: obstacle.message };
    case "terminating": {
      const { namespace } = draft.observed.service.metadata;
      return {
        phase: "Pending",
        reason: "NamespaceTerminating",
        message: `namespace ${namespace} is being deleted`,
      };
    }
    default:
      return obstacle satisfies never;
  }
}

function stoppedWord({ want, draft }: StatusFacts): PhaseWord | undefined {
  if (want > 0) return undefined;
  if (draft.observed.service.spec.suspend) {
    return {
      phase: "Suspended",
      reason: "Suspended",
      message: "spec.suspend is true; set it to false to serve again",
    };
  }
  return {
    phase: "Stopped",
    reason: "ManuallyScaledToZero",
    message: "spec.replicas is 0; scale it up to serve again",
  };
}

function readyWord(facts: StatusFacts): PhaseWord | undefined {
  const { want } = facts;
  if (readyCount(facts) < want) return undefined;
  return (
    rolloutWord(facts) ?? {
      phase: "Ready",
      reason: "InferenceReady",
      message: `${want} of ${want} replicas answer`,
    }
  );
}

function rolloutWord(facts: StatusFacts): PhaseWord | undefined {
  const { at, message } = progressOf(facts);
  if (at === "stopped") return { phase: "Progressing", reason: "RolloutStopped", message };
  return at === "rolling" ? { phase: "Progressing", reason: "NewRevisionRollingOut", message } : undefined;
}

/** What has to come from elsewhere first: a Model, or room. */
function lackWord(facts: StatusFacts): PhaseWord | undefined {
  const { draft, waiting, want } = facts;
  if (readyCount(facts) >= want) return undefined;
  const { resolution } = draft;
  if (resolution.at === "blocked") {
    const { code, message, isFinal } = resolution;
    return { phase: isFinal ? "Failed" : "Pending", reason: code, message };
  }
  const [first] = waiting;
  if (first === undefined) return undefined;
  return { phase: "WaitingForCapacity", reason: first.code, message: first.message };
}

/** Also where every replica answers: the service is not yet what was asked for. */
function rejectionWord(facts: StatusFacts): PhaseWord | undefined {
  const { rejections = [] } = facts;
  const reason = codeOfRejections(rejections);
  if (reason === undefined) return undefined;
  const phase = readyCount(facts) > 0 ? "Progressing" : "Pending";
  return { phase, reason, message: tellRejections(rejections) };
}

/** What is missing is missing because of a rollout that goes on, or that goes no further while others serve. */
function changingWord(facts: StatusFacts): PhaseWord | undefined {
  const { draft, ending } = facts;
  if (draft.rollout.state.old === 0 && ending.length === 0) return undefined;
  return readyCount(facts) > 0 || ending.length > 0 ? rolloutWord(facts) : undefined;
}

function troubleWord(facts: StatusFacts): PhaseWord {
  const { worst } = facts;
  const { phase: replicaPhase, reason, message } = storyOf(worst);
  const count = `${readyCount(facts)} of ${facts.want} replicas answer`;
  if (worst === undefined || replicaPhase === undefined) {
    return { phase: "Creating", reason: "ReplicasNotReady", message: count };
  }
  const host = worst.spec.template.hostName;
  const says = message === undefined || message === "" ? replicaPhase : `${replicaPhase}: ${message}`;
  const text = { reason: wordOf(reason), message: `${count}; ${worst.metadata.name} on ${host} is ${says}` };
  if (replicaPhase === "Failed" && readyCount(facts) === 0) return { phase: "Failed", ...text };
  const wasServing = facts.draft.observed.service.status?.phase;
  return {
    phase: wasServing === "Ready" || wasServing === "Progressing" ? "Progressing" : "Creating",
    ...text,
  };
}

/** A replica that calls itself Ready and is not counted has a host that nobody hears from. */
function storyOf(replica: InferenceReplica | undefined): NonNullable<InferenceReplica["status"]> {
  const status = replica?.status ?? {};
  if (status.phase !== "Ready") return status;
  const { reason, message } = getCondition(status.conditions, "HostReachable") ?? {};
  return {
    phase: "Waiting",
    reason: reason ?? "ReplicasNotReady",
    message: message ?? "whether its host is reachable is not known yet",
  };
}

/** Reasons of conditions must be words; an agent's own codes are. */
function wordOf(reason: string | undefined): string {
  return reason !== undefined && /^[A-Za-z][A-Za-z0-9_]*$/.test(reason) ? reason : "ReplicasNotReady";
}
