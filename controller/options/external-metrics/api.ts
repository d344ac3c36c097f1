/** The API external.metrics.k8s.io/v1beta1, of which autoscalers read the load of services. Pure. */
import { LABEL_SERVICE } from "../../../src/api/group.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { RoutedRequest, Routes } from "../../../src/http/routes.ts";
import { loadPath, REQUESTS_METRIC } from "../../frame/service/autoscaling.ts";

const API_GROUP = "external.metrics.k8s.io";
const GROUP_VERSION = `${API_GROUP}/v1beta1`;
/** Name of the APIService, of which a cluster has one. */
export const API_SERVICE_NAME = `v1beta1.${API_GROUP}`;

/** The route at which KEDA reads the load of a service. */
export const LOAD_PATH = loadPath("*", "*");

export interface ExternalAnswer {
  readonly status: number;
  readonly body: Readonly<Record<string, unknown>>;
}

/** Reads services from a watch. Undefined if there is none of this name. */
export interface LoadSource {
  readonly get: (key: string) => InferenceService | undefined;
  readonly list: () => readonly InferenceService[];
}

/**
 * Number of requests, or undefined if it is not known, which stops autoscaling until it is: a performance without requests. An idle
 * service has no performance. A service without replicas has no requests.
 */
export function requestsOf({ spec, status }: InferenceService): number | undefined {
  const { performance, replicas = 0, readyReplicas = 0 } = status ?? {};
  if (performance !== undefined) return performance.requestsInFlight;
  return readyReplicas > 0 || (spec.replicas === 0 && replicas === 0) ? 0 : undefined;
}

/** The load of the service `namespace/name`. */
export function answerLoad(key: string, services: LoadSource): ExternalAnswer {
  const service = services.get(key);
  if (service === undefined) return { status: 404, body: { error: "no such service" } };
  const requestsInFlight = requestsOf(service);
  return requestsInFlight === undefined
    ? { status: 503, body: { error: UNKNOWN_LOAD } }
    : { status: 200, body: { requestsInFlight } };
}

const UNKNOWN_LOAD =
  "the load of the service is not known: no replica is ready, or a ready replica does not report its requests";

/** The routes for the aggregator. */
export function externalMetricsRoutes(services: LoadSource, nowIso: () => string): Routes {
  return {
    [`/apis/${API_GROUP}`]: () => ({ status: 200, body: API }),
    [`/apis/${GROUP_VERSION}`]: () => ({ status: 200, body: RESOURCES }),
    [`/apis/${GROUP_VERSION}/namespaces/*/${REQUESTS_METRIC}`]: (routed) =>
      answerValues(routed, services, nowIso()),
  };
}

function answerValues(
  { parameters: [namespace], query }: Pick<RoutedRequest, "parameters" | "query">,
  services: LoadSource,
  nowIso: string,
): ExternalAnswer {
  const selector = parseSelector(query.get("labelSelector") ?? "");
  if (selector === undefined)
    return failure(400, "labelSelector supports only equality, for example a=b,c=d");
  const items = services
    .list()
    .filter(({ metadata }) => metadata.namespace === namespace)
    .flatMap((service) => {
      const metricLabels: Readonly<Record<string, string>> = { [LABEL_SERVICE]: service.metadata.name };
      const requests = requestsOf(service);
      if (requests === undefined || !selector.every(([key, value]) => metricLabels[key] === value)) return [];
      return [{ metricName: REQUESTS_METRIC, metricLabels, timestamp: nowIso, value: quantityOf(requests) }];
    });
  return {
    status: 200,
    body: { kind: "ExternalMetricValueList", apiVersion: GROUP_VERSION, metadata: {}, items },
  };
}

const RESOURCES = {
  kind: "APIResourceList",
  apiVersion: "v1",
  groupVersion: GROUP_VERSION,
  resources: [
    {
      name: REQUESTS_METRIC,
      singularName: "",
      namespaced: true,
      kind: "ExternalMetricValueList",
      verbs: ["get"],
    },
  ],
};
const VERSION = { groupVersion: GROUP_VERSION, version: "v1beta1" };
const API = {
  kind: "APIGroup",
  apiVersion: "v1",
  name: API_GROUP,
  versions: [VERSION],
  preferredVersion: VERSION,
};

/** Reasons of a Status, by its code. */
const REASONS = {
  400: "BadRequest",
  401: "Unauthorized",
  404: "NotFound",
  405: "MethodNotAllowed",
  503: "ServiceUnavailable",
} as const;

export function failure(code: keyof typeof REASONS, message: string): ExternalAnswer {
  const reason = REASONS[code];
  const body = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, code };
  return { status: code, body };
}

/** Required labels. Undefined for anything but equality. */
function parseSelector(text: string): readonly (readonly [string, string])[] | undefined {
  const terms = text === "" ? [] : text.split(",");
  const pairs = terms.map((term) => /^\s*([^=!<>\s()]+)\s*==?\s*([^=!<>\s()]*)\s*$/.exec(term));
  return pairs.every((pair) => pair !== null)
    ? pairs.map(([, key = "", value = ""]) => [key, value])
    : undefined;
}

/** In thousandths, because a quantity has no more. */
function quantityOf(value: number): string {
  return `${Math.round(value * 1_000)}m`;
}
