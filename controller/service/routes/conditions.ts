/** The condition GatewayReady and status.gateway, from the route and from what the gateway's controllers report about it. Pure. */
import type { ConditionUpdate } from "../../../src/api/conditions.ts";
import { describeError, type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import type { AIGatewayRoute, HttpRoute } from "../../../src/kube/gateway-objects.ts";
import type { StatusCondition } from "../../../src/kube/workload-objects.ts";
import type { GatewayName } from "./config.ts";

export const GATEWAY_READY = "GatewayReady";
const NOT_EVALUATED = { status: "Unknown", reason: "GatewayRouteNotEvaluated" } as const;

export const UNKNOWN_KINDS: ConditionUpdate = {
  type: GATEWAY_READY,
  ...NOT_EVALUATED,
  message:
    "the kinds of Envoy Gateway and of Envoy AI Gateway have not been listed yet; if this lasts, check that both are installed, and that the controller may read them",
};

export interface RouteReport {
  readonly gateway: GatewayName;
  readonly endpoints: number;
  readonly route: AIGatewayRoute | undefined;
  /** The route that Envoy AI Gateway makes of it, which Envoy Gateway attaches to the Gateway. */
  readonly httpRoute: HttpRoute | undefined;
}

export function gatewayProblem(code: ErrorCode, message: string): ConditionUpdate {
  const text = describeError(new MetalbridgeError(code, message));
  return { type: GATEWAY_READY, status: "False", reason: code, message: text };
}

export function routeCondition({ gateway, endpoints, route, httpRoute }: RouteReport): ConditionUpdate {
  const found = [
    ...(route?.status?.conditions ?? []),
    ...(httpRoute?.status?.parents ?? []).flatMap(({ conditions = [] }) => conditions),
  ];
  const bad = found.find(({ type, status }) => JUDGED.includes(type) && status === "False");
  if (bad !== undefined) return gatewayProblem("GatewayRouteNotAccepted", textOf(bad));
  const waiting = waitingFor(route, httpRoute);
  if (waiting !== undefined)
    return { type: GATEWAY_READY, ...NOT_EVALUATED, message: `${waiting} has not evaluated the route yet` };
  const on = `the route is attached to Gateway ${gateway.namespace}/${gateway.name}`;
  const without = endpoints === 0 ? ", which answers 500 until a replica is ready" : "";
  return { type: GATEWAY_READY, status: "True", reason: "RouteAccepted", message: `${on}${without}` };
}

/** NotAccepted is False too, which is how Envoy AI Gateway reports a failure. */
const JUDGED: readonly string[] = ["Accepted", "NotAccepted", "ResolvedRefs"];

function waitingFor(route: AIGatewayRoute | undefined, httpRoute: HttpRoute | undefined): string | undefined {
  const isTrue = (conditions: readonly StatusCondition[] = []) =>
    conditions.some(({ type, status }) => type === "Accepted" && status === "True");
  if (!isTrue(route?.status?.conditions)) return "Envoy AI Gateway";
  const isAttached = httpRoute?.status?.parents?.some(({ conditions }) => isTrue(conditions));
  return isAttached === true ? undefined : "Envoy Gateway";
}

function textOf({ reason, message }: StatusCondition): string {
  return [reason, message].filter((text) => text !== undefined && text !== "").join(": ");
}
