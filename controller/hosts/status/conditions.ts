/** The conditions of a service on hosts. They are always present, so `kubectl wait` can rely on them. Pure. */
import { type Condition, type ConditionUpdate, withConditions } from "../../../src/api/conditions.ts";
import { engineDescription, isGated } from "../../../src/engines/registry.ts";
import { rejectedCondition } from "../../frame/apply/rejection.ts";
import {
  honoredCondition,
  isMoving,
  isReadingModel,
  type PhaseStatus,
  readiness,
  unresolved,
} from "../../frame/service/phase.ts";
import { type HostsStatusFacts, readyCount } from "./facts.ts";
import { hasLostReplicas, readyReplicasText } from "./phase.ts";
import { revisionProgressOf } from "./progress.ts";
import { speedKnown } from "./speed.ts";

export function hostsConditions(facts: HostsStatusFacts, now: PhaseStatus, nowIso: string): Condition[] {
  const updates = [
    ...readiness(now, readyCount(facts), readyReplicasText(facts)),
    progressing(facts, now),
    degraded(facts, now),
    placed(facts, now),
    honored(facts),
    warnings(facts),
    keyRequired(facts),
    encrypted(facts),
    speedKnown(facts.draft),
  ];
  return withConditions(facts.draft.observed.service, undefined, updates, nowIso);
}

/** Reports a rollout that is in progress or has just completed, or else the phase. */
function progressing(facts: HostsStatusFacts, now: PhaseStatus): ConditionUpdate {
  const type = "Progressing";
  const progress =
    facts.obstacle.at === "none" ? revisionProgressOf(facts) : { at: "none" as const, message: "" };
  switch (progress.at) {
    case "complete":
      return { type, status: "False", reason: "RolloutComplete", message: progress.message };
    case "rolling":
      return { type, status: "True", reason: "NewRevisionRollingOut", message: progress.message };
    case "stopped":
      return { type, status: "False", reason: "RolloutStopped", message: progress.message };
    case "none":
      return { type, status: isMoving(now) ? "True" : "False", reason: now.reason, message: now.message };
    default:
      return progress.at satisfies never;
  }
}

/** True if something needs attention, whether or not the service still serves. */
function degraded(facts: HostsStatusFacts, { phase, reason, message }: PhaseStatus): ConditionUpdate {
  const type = "Degraded";
  if (phase === "Failed" || phase === "Degraded") return { type, status: "True", reason, message };
  const rejected = rejectedCondition(type, "True", facts.rejections ?? []);
  if (rejected !== undefined) return rejected;
  const { resolution, observed } = facts.draft;
  if (resolution.at === "blocked" && facts.desired > 0 && !isReadingModel(resolution, observed.model)) {
    return { type, status: "True", reason: resolution.code, message: resolution.message };
  }
  if (phase === "WaitingForCapacity" && hasLostReplicas(facts))
    return { type, status: "True", reason, message };
  return { type, status: "False", reason: "AsExpected", message: "" };
}

function placed(
  { unplaced, desired, live, obstacle, draft, rejections = [] }: HostsStatusFacts,
  now: PhaseStatus,
): ConditionUpdate {
  const type = "Placed";
  const isUnplanned = obstacle.at !== "none" || draft.resolution.at === "blocked";
  if (isUnplanned && live.length < desired)
    return { type, status: "Unknown", reason: now.reason, message: now.message };
  const [first] = unplaced;
  if (first !== undefined) return { type, status: "False", reason: first.code, message: first.message };
  const rejected = rejectedCondition(type, "Unknown", rejections);
  if (rejected !== undefined && live.length < desired) return rejected;
  return { type, status: "True", reason: desired === 0 ? "NothingWanted" : "AllPlaced", message: "" };
}

function honored({ draft }: HostsStatusFacts): ConditionUpdate {
  const type = "SpecHonored";
  if (draft.resolution.at === "blocked") return unresolved(type, draft.resolution);
  return honoredCondition("ignored on hosts, or honored only as shown", draft.resolution);
}

/** For a service that runs, but probably not as the user intended. */
function warnings({ draft: { resolution } }: HostsStatusFacts): ConditionUpdate {
  const type = "Warnings";
  if (resolution.at === "blocked") return unresolved(type, resolution);
  const { beyondTraining } = resolution;
  if (beyondTraining === undefined) return { type, status: "False", reason: "NoWarnings", message: "" };
  return { type, status: "True", reason: "ContextBeyondTraining", message: beyondTraining };
}

/** Reports whether clients need a key, and what they reach without one. */
function keyRequired({ draft: { observed, resolution } }: HostsStatusFacts): ConditionUpdate {
  const type = "KeyRequired";
  const open = observed.replicas.filter(({ spec }) => spec.template.auth === undefined);
  if (observed.service.spec.auth === undefined || open.length > 0) {
    const isSealed =
      resolution.at !== "blocked" &&
      [resolution.template, ...open.map(({ spec }) => spec.template)].every(
        ({ transport }) => transport === "Sealed",
      );
    const clients = isSealed
      ? "of the gateway or the Service"
      : "that reaches the Service or a replica's port";
    const message =
      observed.service.spec.auth === undefined
        ? `any client ${clients} can use the model; set spec.auth to require a key`
        : `replicas of an older revision need no key, until the rollout has replaced them: ${open.map(({ metadata }) => metadata.name).join(", ")}`;
    return { type, status: "False", reason: "NoAuth", message };
  }
  if (resolution.at === "blocked") return unresolved(type, resolution);
  const { template } = resolution;
  const status = "True";
  if (!isGated(template)) {
    const message = "the engine checks the key; without one: /health, /v1/health and OPTIONS requests";
    return { type, status, reason: "EngineChecksKeys", message };
  }
  const { checksApiKey, asksGateForKey } = engineDescription(template.runtime) ?? {};
  const preflights = checksApiKey === true ? " and OPTIONS requests" : "";
  const inside = asksGateForKey === true ? "" : "; programs on the host reach the engine on 127.0.0.1";
  const message = `the gate checks the key; without one: GET /health${preflights}${inside}`;
  return { type, status, reason: "GateChecksKeys", message };
}

/** Reports whether prompts and answers are encrypted between clients and hosts. */
function encrypted({ draft: { resolution, observed }, live }: HostsStatusFacts): ConditionUpdate {
  const type = "Encrypted";
  if (resolution.at === "blocked") return unresolved(type, resolution);
  const { template } = resolution;
  const isPlain = ({ transport, tls }: Pick<typeof template, "transport" | "tls">) =>
    transport === undefined && tls === undefined;
  const old = live.filter(({ spec }) => isPlain(spec.template));
  if (isPlain(template) || old.length > 0) {
    const names = old.map(({ metadata }) => metadata.name).join(", ");
    const message = isPlain(template)
      ? "keys, prompts and answers cross the network to the hosts in plain HTTP; spec.endpoint.transport Sealed encrypts them"
      : `replicas of an older revision use plain HTTP, until the rollout has replaced them: ${names}`;
    return { type, status: "False", reason: "PlaintextOnNetwork", message };
  }
  if (template.transport === undefined) {
    const message = "hosts serve HTTPS with the certificate in spec.endpoint.tls";
    return { type, status: "True", reason: "ServiceCertificate", message };
  }
  const { clients, relays } = observed.sealing;
  if (clients.length === 0)
    return {
      type,
      status: "Unknown",
      reason: "SealedWithoutClients",
      message: "no client is known to the hosts",
    };
  const through =
    relays === undefined ? "; this installation has no relay, so clients have to use the gateway" : "";
  const message = `hosts serve only the gateways and relays of this cluster, over TLS 1.3${through}`;
  return { type, status: "True", reason: "TransportSealed", message };
}
