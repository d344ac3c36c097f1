/** The watches for routes on gateways of other projects. Many clusters lack the kinds; they may be installed at any time. */
import { LABEL_SERVICE_UID } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { HttpRoute } from "../../../src/kube/gateway-objects.ts";
import { AI_GATEWAY_ROUTES, HTTP_ROUTES } from "../../../src/kube/kinds.ts";
import type { Reflector } from "../../../src/kube/types.ts";
import type { KindDefinition } from "../../../src/kube/workload-objects.ts";
import type { OwnedKind } from "../owned/kinds.ts";
import type { Emit, StartWatch } from "./contract.ts";
import { definitionWatch, kindStateOf } from "./group-kind.ts";

export interface RouteWatches {
  /** The definition of AIGatewayRoute, without its schemas. */
  readonly routeKind: Reflector<KindDefinition>;
  /** Routes that Envoy AI Gateway has made of ours. They have the labels and the names of ours. */
  readonly httpRoutes: Reflector<HttpRoute>;
}

/** Objects of a service that make its route. */
export const ROUTE_OBJECTS = [
  "gatewayBackends",
  "aiServiceBackends",
  "aiGatewayRoutes",
  "trafficPolicies",
] as const satisfies readonly OwnedKind[];

type RouteObjectWatches = {
  readonly [K in (typeof ROUTE_OBJECTS)[number]]: Pick<Reflector<never>, "isSynced" | "relist">;
};

export type RouteKinds = "installed" | "missing" | "unknown";

/** `onInstalled` is called when the kind was installed, before the services are reconciled. */
export function startRouteWatches(start: StartWatch, emit: Emit, onInstalled: () => void): RouteWatches {
  const routeKind = start({
    ...definitionWatch(AI_GATEWAY_ROUTES),
    onChange: () => {
      if (areRoutesInstalled(routeKind)) onInstalled();
      emit((on) => on.onKind());
    },
    onSynced: () => emit((on) => on.onKind()),
  });
  const httpRoutes = start<HttpRoute>({
    kind: HTTP_ROUTES,
    isOptional: true,
    isInstalled: () => areRoutesInstalled(routeKind),
    labelSelector: LABEL_SERVICE_UID,
    onChange: (key) => emit((on) => on.onService(key)),
  });
  return { routeKind, httpRoutes };
}

export function areRoutesInstalled(routeKind: RouteWatches["routeKind"]): boolean {
  return kindStateOf(routeKind, AI_GATEWAY_ROUTES).at === "installed";
}

export function routeKindsOf(watches: Pick<RouteWatches, "routeKind"> & RouteObjectWatches): RouteKinds {
  if (!watches.routeKind.isSynced()) return "unknown";
  if (!areRoutesInstalled(watches.routeKind)) return "missing";
  return ROUTE_OBJECTS.every((what) => watches[what].isSynced()) ? "installed" : "unknown";
}

/** Lists the kinds at once, which are otherwise retried after minutes. */
export function relistRoutes(watches: Pick<RouteWatches, "httpRoutes"> & RouteObjectWatches): void {
  for (const what of ROUTE_OBJECTS) watches[what].relist();
  watches.httpRoutes.relist();
}

/** For services whose slices and pods are not at hand. */
export function hasReadyReplicas(service: Pick<InferenceService, "status"> | undefined): boolean {
  return (service?.status?.readyReplicas ?? 0) > 0;
}
