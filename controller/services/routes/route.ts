/** Keeps the route of a service on a Gateway of Envoy AI Gateway, on any path. */
import { type ConditionUpdate, getCondition } from "../../../src/api/conditions.ts";
import { describeError, type ErrorCode, MetalbridgeError } from "../../../src/api/errors.ts";
import { FINALIZER_SERVICE } from "../../../src/api/group.ts";
import type { InferenceService, InferenceServiceStatus } from "../../../src/api/inference-service/index.ts";
import { modelNamesOf } from "../../../src/api/inference-service/roles.ts";
import type { AIGatewayRoute, HttpRoute } from "../../../src/kube/gateway-objects.ts";
import type { StatusCondition } from "../../../src/kube/workload-objects.ts";
import { isDeepEqual } from "../../../src/util/deep-equal.ts";
import { type Rejection, rejectedCondition } from "../../frame/apply/rejection.ts";
import type { OwnedObjects } from "../../frame/owned/observe.ts";
import type { ServiceStep } from "../../frame/owned/steps.ts";
import { stepsOf } from "../../frame/owned/steps-of.ts";
import type { ControllerPorts } from "../../frame/ports.ts";
import type { LiveService } from "../../frame/service/path.ts";
import { hasReadyReplicas } from "../../frame/watches/route-watches.ts";
import type { GatewayName, RouteSettings } from "./config.ts";
import { readyEndpoints } from "./endpoints.ts";
import { gatewayOf, type RouteNames, type RouteObjects, routeNamesOf, routeObjects } from "./plan.ts";

export interface RoutePorts extends ControllerPorts {
  readonly routes: RouteSettings;
}

export interface RoutedService {
  readonly gateway: InferenceServiceStatus["gateway"];
  readonly conditions: readonly ConditionUpdate[];
}

export interface RoutePlan {
  readonly steps: readonly ServiceStep[];
  readonly report: (rejections: readonly Rejection[]) => RoutedService;
}

const NO_ROUTE: RoutedService = { gateway: undefined, conditions: [] };

/** Reads the watches and plans. Nothing happens if the cluster lacks the kinds. */
export function planRoute(ports: RoutePorts, live: LiveService): RoutePlan {
  const { service, own } = live;
  const gateway = gatewayOf(service, ports.routes);
  const kinds = ports.watches.routeKinds();
  // Without its objects in the cache, a service would seem to have none.
  if (kinds === "unknown") return reported(gateway === undefined ? NO_ROUTE : lastReport(service));
  if (kinds === "missing")
    return reported(
      gateway === undefined
        ? NO_ROUTE
        : problem("GatewayKindsMissing", "the cluster lacks the kinds of Envoy AI Gateway"),
    );
  if (gateway === undefined || gateway === "unset") {
    const unset = () => problem("GatewayNotSet", "no Gateway is named for the route of the service");
    return reported(gateway === undefined ? NO_ROUTE : unset(), stepsOfRoute(undefined, own));
  }
  // Everything that is created is cleaned up by the finalizer, so a new service gets its route in the next pass.
  if (service.metadata.finalizers?.includes(FINALIZER_SERVICE) !== true) return reported(lastReport(service));
  return planOn(ports, live, gateway);
}

function reported(service: RoutedService, steps: readonly ServiceStep[] = []): RoutePlan {
  return { steps, report: () => service };
}

function planOn(ports: RoutePorts, { key, service, own }: LiveService, gateway: GatewayName): RoutePlan {
  const { watches } = ports;
  const adapters = modelNamesOf(service.spec).adapters.map(({ name }) => name);
  const isRouted = (other: string) => {
    const found = watches.services.get(other);
    return found !== undefined && isDeepEqual(gatewayOf(found, ports.routes), gateway);
  };
  const endpoints = readyEndpoints(service.metadata.name, own);
  const hasEndpoints = (other: string) =>
    other === key ? endpoints.length > 0 : hasReadyReplicas(watches.services.get(other));
  const names = routeNamesOf(service, adapters, watches.publicNames, { isRouted, hasEndpoints });
  const objects = routeObjects({ service, gateway, endpoints, names });
  const [route] = own.aiGatewayRoutes;
  const httpRoute = watches.httpRoutes.get(key);
  const found = routeCondition({ gateway, endpoints: endpoints.length, route, httpRoute });
  const modelName = modelNameOf(service, names);
  return {
    steps: stepsOfRoute(objects, own),
    report: (rejections) => {
      const condition = rejectedCondition(GATEWAY_READY, "False", rejections) ?? found;
      return { gateway: { routeReady: condition.status === "True", modelName }, conditions: [condition] };
    },
  };
}

/** The name that the user asks for, else the shortest one of the service. */
function modelNameOf({ spec, metadata }: InferenceService, names: RouteNames): string {
  const { known, replaced, shared } = names;
  const all = [...known, ...replaced, ...shared.map(({ name }) => name)];
  const wanted = [spec.endpoint.gateway?.modelName, metadata.name];
  const own = `${metadata.namespace}/${metadata.name}`;
  return wanted.find((name) => name !== undefined && all.includes(name)) ?? own;
}

function stepsOfRoute(objects: RouteObjects | undefined, own: OwnedObjects): ServiceStep[] {
  return [
    ...stepsOf("gatewayBackends", objects?.backend, own.gatewayBackends),
    ...stepsOf("aiServiceBackends", objects?.aiBackend, own.aiServiceBackends),
    ...stepsOf("aiGatewayRoutes", objects?.route, own.aiGatewayRoutes),
    ...stepsOf("trafficPolicies", objects?.policy, own.trafficPolicies),
  ];
}

function problem(...args: Parameters<typeof gatewayProblem>): RoutedService {
  return { ...NO_ROUTE, conditions: [gatewayProblem(...args)] };
}

/** What the last pass has reported. */
function lastReport({ status }: InferenceService): RoutedService {
  const last = getCondition(status?.conditions, GATEWAY_READY);
  return { ...NO_ROUTE, gateway: status?.gateway, conditions: [last ?? UNKNOWN_KINDS] };
}

const GATEWAY_READY = "GatewayReady";
const NOT_EVALUATED = { status: "Unknown", reason: "GatewayRouteNotEvaluated" } as const;

const UNKNOWN_KINDS: ConditionUpdate = {
  type: GATEWAY_READY,
  ...NOT_EVALUATED,
  message:
    "the kinds of Envoy Gateway and of Envoy AI Gateway have not been listed yet; if this lasts, check that both are installed, and that the controller may read them",
};

interface RouteReport {
  readonly gateway: GatewayName;
  readonly endpoints: number;
  readonly route: AIGatewayRoute | undefined;
  /** The route that Envoy AI Gateway makes of it, which Envoy Gateway attaches to the Gateway. */
  readonly httpRoute: HttpRoute | undefined;
}

function gatewayProblem(code: ErrorCode, message: string): ConditionUpdate {
  const text = describeError(new MetalbridgeError(code, message));
  return { type: GATEWAY_READY, status: "False", reason: code, message: text };
}

/** The condition GatewayReady, from the route and from what the gateway's controllers report about it. Pure. */
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
