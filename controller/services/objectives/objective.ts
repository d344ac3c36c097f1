/** Keeps the objects that watch the service level objective of a service, on any path. */
import { type Condition, type ConditionUpdate, getCondition } from "../../../src/api/conditions.ts";
import { describeError, type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import { LATENCY_BUCKETS } from "../../../src/gateway/indicators.ts";
import { type Rejection, rejectedCondition } from "../../frame/apply/rejection.ts";
import type { OwnedObjects } from "../../frame/owned/observe.ts";
import type { ServiceStep } from "../../frame/owned/steps.ts";
import { stepsOf } from "../../frame/owned/steps-of.ts";
import type { ControllerPorts } from "../../frame/ports.ts";
import type { LiveService } from "../../frame/service/path.ts";
import { type ObjectiveObject, objectiveKindOf } from "../../frame/watches/objective-watches.ts";
import type { RuleLabels } from "./config.ts";
import { bucketOf, nameOf, type Objective, prometheusRule, pyrraObjective } from "./rules.ts";

export interface ObjectivePorts extends ControllerPorts {
  readonly ruleLabels: RuleLabels;
}

export interface ObjectivePlan {
  readonly steps: readonly ServiceStep[];
  /** The condition SLOReady; undefined without spec.slo. */
  readonly report: (rejections: readonly Rejection[]) => ConditionUpdate | undefined;
}

const READY = "SLOReady";
const UNKNOWN_KINDS: ConditionUpdate = {
  type: READY,
  status: "Unknown",
  reason: "SLONotEvaluated",
  message:
    "the objects of Pyrra and of the Prometheus operator have not been listed yet; if this lasts, the controller lacks the right to them: set rbac.objectives of the chart to true",
};

/** Reads the watches and plans. */
export function planObjective({ watches, ruleLabels }: ObjectivePorts, live: LiveService): ObjectivePlan {
  return planFor(live, objectiveKindOf(watches), ruleLabels);
}

/** Two objects would alert twice, so the one is created once the other is gone. Pure. */
export function planFor(
  { service, own }: Pick<LiveService, "service" | "own">,
  kind: ReturnType<typeof objectiveKindOf>,
  labels: RuleLabels,
): ObjectivePlan {
  const { slo } = service.spec;
  const last = getCondition(service.status?.conditions, READY);
  if (kind === "unknown") return reported(slo && (last ?? UNKNOWN_KINDS));
  if (slo === undefined) return reported(undefined, stepsOfObjective(undefined, own));
  if (kind === "missing")
    return reported(problem("SLOKindsMissing", "neither Pyrra nor the Prometheus operator is installed"));
  const bucket = slo.indicator === "latency" ? bucketOf(slo) : undefined;
  if (slo.indicator === "latency" && bucket === undefined) {
    const message = `latencyThreshold ${slo.latencyThreshold} is above the largest bucket; the buckets in seconds are ${LATENCY_BUCKETS.join(", ")}`;
    return reported(problem("SLOThresholdTooHigh", message), stepsOfObjective(undefined, own));
  }
  const objective = { service, slo, bucket, labels };
  const found = applied(objective, kind);
  return {
    steps: stepsOfObjective({ objective, kind }, own),
    report: (rejections) => rejectedCondition(READY, "False", rejections) ?? found,
  };
}

function reported(condition: ConditionUpdate | undefined, steps: readonly ServiceStep[] = []): ObjectivePlan {
  return { steps, report: () => condition };
}

function stepsOfObjective(
  wanted: { readonly objective: Objective; readonly kind: ObjectiveObject } | undefined,
  { objectives, prometheusRules }: Pick<OwnedObjects, ObjectiveObject>,
): ServiceStep[] {
  const isPyrra = wanted?.kind === "objectives" && prometheusRules.length === 0;
  const isRule = wanted?.kind === "prometheusRules" && objectives.length === 0;
  return [
    ...stepsOf("objectives", isPyrra ? pyrraObjective(wanted.objective) : undefined, objectives),
    ...stepsOf("prometheusRules", isRule ? prometheusRule(wanted.objective) : undefined, prometheusRules),
  ];
}

function problem(code: ErrorCode, message: string): ConditionUpdate {
  const text = describeError(new MetalbridgeError(code, message));
  return { type: READY, status: "False", reason: code, message: text };
}

/** The controller does not know which requests pass the gateway, so the message says what is counted. */
function applied({ service, slo, bucket }: Objective, kind: ObjectiveObject): ConditionUpdate {
  const object = kind === "objectives" ? "ServiceLevelObjective" : "PrometheusRule";
  const { latencyThreshold } = slo;
  const rounded =
    bucket === undefined ? "" : `, with the bucket of ${bucket} s for latencyThreshold ${latencyThreshold}`;
  return {
    type: READY,
    status: "True",
    reason: "SLOApplied",
    message: `${object} ${nameOf({ service, slo })} counts the requests through metalbridge gateway${rounded}; those to its Service, or through another gateway, are not counted`,
  };
}

/** Names spec.slo among the fields that are not honored. Undefined if it is, or if nothing is known of the others yet. */
export function unhonoredObjective(
  ready: ConditionUpdate | undefined,
  conditions: readonly Condition[] | undefined,
): ConditionUpdate | undefined {
  const honored = getCondition(conditions, "SpecHonored");
  if (ready?.status !== "False" || honored === undefined || honored.status === "Unknown") return undefined;
  const { type, status, reason, message } = honored;
  const text = `spec.slo: ${ready.message}`;
  return status === "True"
    ? { type, status: "False", reason: "FieldsNotHonored", message: text }
    : { type, status, reason, message: `${message}; ${text}` };
}
