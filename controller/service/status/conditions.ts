/** The conditions of a service; each always present, so that `kubectl wait` can rely on them. Pure. */
import type { Condition, ConditionUpdate } from "../../../src/api/conditions.ts";
import { setCondition } from "../../../src/api/conditions.ts";
import { codeOfRejections, tellRejections } from "../apply/rejection.ts";
import type { StatusFacts } from "./facts.ts";
import { readyCount } from "./facts.ts";
import type { PhaseWord } from "./phase.ts";
import { progressOf } from "./progress.ts";

export function conditionsOf(facts: StatusFacts, word: PhaseWord, nowIso: string): Condition[] {
  const { metadata, status } = facts.draft.observed.service;
  const updates = [
    available(facts, word),
    progressing(facts, word),
    degraded(facts, word),
    placed(facts, word),
    honored(facts),
    warnings(facts),
  ];
  return updates.flatMap((update) => {
    const before = status?.conditions?.filter(({ type }) => type === update.type);
    return setCondition(before, { ...update, observedGeneration: metadata.generation }, nowIso);
  });
}

function available(facts: StatusFacts, { reason, message }: PhaseWord): ConditionUpdate {
  const type = "Available";
  const count = readyCount(facts);
  if (count > 0) {
    return {
      type,
      status: "True",
      reason: "InferenceReady",
      message: `${count} of ${facts.want} replicas answer`,
    };
  }
  const isStopped =
    reason === "Suspended" || reason === "ManuallyScaledToZero" || reason === "ServiceNameTaken";
  return { type, status: "False", reason: isStopped ? reason : "NoReadyReplicas", message };
}

/** Where a rollout is under way, or is over, this is its story; else that of the phase. */
function progressing(facts: StatusFacts, { phase, reason, message }: PhaseWord): ConditionUpdate {
  const type = "Progressing";
  const progress = facts.obstacle.at === "none" ? progressOf(facts) : { at: "none" as const, message: "" };
  switch (progress.at) {
    case "complete":
      return { type, status: "False", reason: "RolloutComplete", message: progress.message };
    case "rolling":
      return { type, status: "True", reason: "NewRevisionRollingOut", message: progress.message };
    case "stopped":
      return { type, status: "False", reason: "RolloutStopped", message: progress.message };
    case "none": {
      const isMoving = phase === "Creating" || phase === "Progressing" || phase === "Pending";
      return { type, status: isMoving ? "True" : "False", reason, message };
    }
    default:
      return progress.at satisfies never;
  }
}

function degraded(facts: StatusFacts, word: PhaseWord): ConditionUpdate {
  const type = "Degraded";
  const { resolution } = facts.draft;
  if (word.phase === "Failed") return { type, status: "True", reason: word.reason, message: word.message };
  // What is said of a Model that is missing stands in other conditions too; this stands nowhere else.
  const rejected = codeOfRejections(facts.rejections ?? []);
  if (rejected !== undefined) {
    return { type, status: "True", reason: rejected, message: tellRejections(facts.rejections ?? []) };
  }
  if (resolution.at === "blocked" && facts.want > 0) {
    return { type, status: "True", reason: resolution.code, message: resolution.message };
  }
  if (word.reason === "RolloutStopped") {
    return { type, status: "True", reason: word.reason, message: word.message };
  }
  const phase = facts.worst?.status?.phase;
  const isTrouble = phase === "Failed" || phase === "Backoff" || phase === "Evicted";
  const wasServing = facts.draft.observed.service.status?.conditions?.some(
    (condition) => condition.type === "Available" && condition.status === "True",
  );
  if (isTrouble || (wasServing === true && readyCount(facts) < facts.want)) {
    return { type, status: "True", reason: word.reason, message: word.message };
  }
  return { type, status: "False", reason: "AsExpected", message: "" };
}

function placed(
  { unplaced, want, live, obstacle, draft, rejections = [] }: StatusFacts,
  word: PhaseWord,
): ConditionUpdate {
  const type = "Placed";
  const isKept = obstacle.at !== "none" || draft.resolution.at === "blocked";
  if (isKept && live.length < want)
    return { type, status: "Unknown", reason: word.reason, message: word.message };
  const [first] = unplaced;
  if (first !== undefined) return { type, status: "False", reason: first.code, message: first.message };
  const rejected = codeOfRejections(rejections);
  if (rejected !== undefined && live.length < want)
    return { type, status: "Unknown", reason: rejected, message: tellRejections(rejections) };
  return { type, status: "True", reason: want === 0 ? "NothingWanted" : "AllPlaced", message: "" };
}

function honored({ draft }: StatusFacts): ConditionUpdate {
  const type = "SpecHonored";
  if (draft.resolution.at === "blocked") {
    return {
      type,
      status: "Unknown",
      reason: draft.resolution.code,
      message: "the path of this service is not known yet",
    };
  }
  const { unhonored } = draft.resolution;
  if (unhonored.length === 0) return { type, status: "True", reason: "AllFieldsHonored", message: "" };
  const message = `these fields have no effect on Metal hosts, or not the one that they name: ${unhonored.join(", ")}`;
  return { type, status: "False", reason: "FieldsNotHonored", message };
}

/** What is served, but not as somebody may think who wrote it. */
function warnings({ draft: { resolution } }: StatusFacts): ConditionUpdate {
  const type = "Warnings";
  if (resolution.at === "blocked") {
    return { type, status: "Unknown", reason: resolution.code, message: "its Model is not known yet" };
  }
  const { beyondTraining } = resolution;
  if (beyondTraining === undefined) return { type, status: "False", reason: "NoWarnings", message: "" };
  return { type, status: "True", reason: "ContextBeyondTraining", message: beyondTraining };
}
