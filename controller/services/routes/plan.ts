/** The objects that give a service a route on a Gateway of Envoy AI Gateway. Pure. */
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { keyOf, serviceName } from "../../../src/api/names.ts";
import { MANAGED_BY, ownedObjectRef, ownerLabels } from "../../../src/api/owned.ts";
import { engineDescription } from "../../../src/engines/registry.ts";
import { SERVICE_HEADER } from "../../../src/gateway/headers.ts";
import type { PublicNames } from "../../../src/gateway/public-names.ts";
import type {
  AIGatewayRoute,
  AIGatewayRouteRule,
  AIServiceBackend,
  BackendTrafficPolicy,
  GatewayBackend,
} from "../../../src/kube/gateway-objects.ts";
import {
  AI_GATEWAY_ROUTES,
  AI_SERVICE_BACKENDS,
  BACKEND_TRAFFIC_POLICIES,
  GATEWAY_BACKENDS,
} from "../../../src/kube/kinds.ts";
import type { Kind, KubeObject } from "../../../src/kube/types.ts";
import type { GatewayName, RouteSettings } from "./config.ts";
import type { RouteEndpoint } from "./endpoints.ts";

const GATEWAY_API = "gateway.networking.k8s.io";
/** The header in which Envoy AI Gateway puts the model name of a request. */
const MODEL_HEADER = "x-ai-eg-model";
/** Explicit, because requests without a timeout of their own end after 60 s. It includes the wait for the first token. */
const REQUEST_TIMEOUT = "1h";
/** Dead machines get requests only if no other is healthy: by default Envoy ignores health checks once most of them fail. */
const PANIC_PERCENT = 1;
/** The maximum of a Backend. */
const ENDPOINTS_MAX = 256;
const TOKEN_COSTS = [
  { metadataKey: "llm_input_token", type: "InputToken" },
  { metadataKey: "llm_output_token", type: "OutputToken" },
  { metadataKey: "llm_total_token", type: "TotalToken" },
];

export interface RouteObjects {
  readonly backend: GatewayBackend;
  readonly aiBackend: AIServiceBackend;
  readonly route: AIGatewayRoute;
  readonly policy: BackendTrafficPolicy;
}

export interface RouteInput {
  readonly service: InferenceService;
  readonly gateway: GatewayName;
  readonly endpoints: readonly RouteEndpoint[];
  readonly names: RouteNames;
}

/** A name that several services share. */
interface SharedName {
  readonly name: string;
  /** Services of the same namespace. */
  readonly shares: readonly { readonly service: string; readonly weight: number }[];
}

/** Model names by which the route of a service matches requests. */
export interface RouteNames {
  /** Names that the engine knows: the one that it was started with, and those of its adapters. */
  readonly known: readonly string[];
  /** Names that the gateway replaces by the one that the engine knows. */
  readonly replaced: readonly string[];
  readonly shared: readonly SharedName[];
}

/** The Gateway of a service; undefined if it wants none, "unset" if nothing names the Gateway. */
export function gatewayOf(
  { metadata, spec }: Pick<InferenceService, "metadata" | "spec">,
  { isDefault, gateway }: RouteSettings,
): GatewayName | "unset" | undefined {
  const own = spec.endpoint.gateway;
  if (!(own?.enabled ?? isDefault)) return undefined;
  const { name, namespace = metadata.namespace ?? "default" } = own?.gatewayRef ?? {};
  return name === undefined ? (gateway ?? "unset") : { namespace, name };
}

/** The services with which a service may share a name. */
export interface Sharers {
  /** It is on the same Gateway. */
  readonly isRouted: (key: string) => boolean;
  readonly hasEndpoints: (key: string) => boolean;
}

/**
 * The names of a service. The first to claim a shared name has the rule for it. Services without endpoints are left
 * out while another has some: Envoy Gateway would answer their part of the requests with 503, and would give each other service
 * a cluster of a kind that Envoy AI Gateway does not know, so that their names would not be replaced.
 */
export function routeNamesOf(
  { metadata: { name, namespace = "default" } }: Pick<InferenceService, "metadata">,
  adapters: readonly string[],
  { namesOf, sharesOf }: Pick<PublicNames, "namesOf" | "sharesOf">,
  { isRouted, hasEndpoints }: Sharers,
): RouteNames {
  const key = keyOf({ namespace, name });
  const names = namesOf(key).map((one) => ({ one, shares: sharesOf(one) }));
  const alone = names.filter(({ shares: [first, ...others] }) => first?.key === key && others.length === 0);
  const isKnown = (one: string) => one === name || adapters.includes(one);
  const shared = names.filter(({ shares: [first, ...others] }) => first?.key === key && others.length > 0);
  return {
    known: alone.flatMap(({ one }) => (isKnown(one) ? [one] : [])),
    replaced: alone.flatMap(({ one }) => (isKnown(one) ? [] : [one])),
    shared: shared.map(({ one, shares }) => ({
      name: one,
      shares: preferred(
        shares.filter((share) => share.key === key || isRouted(share.key)),
        (share) => hasEndpoints(share.key),
      ).map((share) => ({ service: share.key.slice(namespace.length + 1), weight: share.weight })),
    })),
  };
}

/** Those that pass, or all if none does. */
function preferred<T>(all: readonly T[], isPreferred: (one: T) => boolean): readonly T[] {
  const found = all.filter(isPreferred);
  return found.length > 0 ? found : all;
}

export function routeObjects(input: RouteInput): RouteObjects {
  return {
    backend: backendOf(input),
    aiBackend: aiBackendOf(input),
    route: routeOf(input),
    policy: policyOf(input),
  };
}

/** Without endpoints the Gateway answers 500. */
function backendOf({ service, endpoints }: RouteInput): GatewayBackend {
  const { name, namespace } = service.metadata;
  const { tls } = service.spec.endpoint;
  const listed = endpoints.slice(0, ENDPOINTS_MAX).map(({ address, port }) => ({ ip: { address, port } }));
  return {
    ...identity(GATEWAY_BACKENDS, service),
    spec: {
      endpoints: listed.length === 0 ? undefined : listed,
      tls: tls && {
        caCertificateRefs: [{ group: "", kind: "Secret", name: tls.secretRef.name }],
        sni: `${serviceName(name)}.${namespace}.svc`,
      },
    },
  };
}

function aiBackendOf({ service }: RouteInput): AIServiceBackend {
  const { group, kind } = GATEWAY_BACKENDS;
  return {
    ...identity(AI_SERVICE_BACKENDS, service),
    spec: {
      schema: { name: "OpenAI" },
      backendRef: { group, kind: kind as "Backend", name: serviceName(service.metadata.name) },
      headerMutation: { set: [{ name: SERVICE_HEADER, value: keyOf(service.metadata) }] },
    },
  };
}

function routeOf({ service, gateway, names }: RouteInput): AIGatewayRoute {
  const name = serviceName(service.metadata.name);
  const { known, replaced, shared } = names;
  const groups: [readonly string[], AIGatewayRouteRule["backendRefs"]][] = [
    [known, [{ name }]],
    [replaced, [{ name, modelNameOverride: service.metadata.name }]],
    ...shared.map((one): [string[], AIGatewayRouteRule["backendRefs"]] => [
      [one.name],
      one.shares.map((share) => ({
        name: serviceName(share.service),
        modelNameOverride: share.service,
        weight: share.weight,
      })),
    ]),
  ];
  return {
    ...identity(AI_GATEWAY_ROUTES, service),
    spec: {
      parentRefs: [{ group: GATEWAY_API, kind: "Gateway", ...gateway }],
      llmRequestCosts: TOKEN_COSTS,
      rules: groups
        .filter(([matched]) => matched.length > 0)
        .map(([matched, refs]) => ruleOf(matched, refs, service)),
    },
  };
}

function ruleOf(
  matched: readonly string[],
  backendRefs: AIGatewayRouteRule["backendRefs"],
  { status }: InferenceService,
): AIGatewayRouteRule {
  return {
    matches: matched.map((value) => ({ headers: [{ type: "Exact", name: MODEL_HEADER, value }] })),
    backendRefs,
    modelsOwnedBy: status?.model?.ownedBy ?? "metalbridge",
    modelsCreatedAt: status?.model?.createdAt,
    timeouts: { request: REQUEST_TIMEOUT },
  };
}

/** One policy for everything: of two policies for a route, Envoy Gateway ignores the newer. */
function policyOf({ service }: RouteInput): BackendTrafficPolicy {
  const name = serviceName(service.metadata.name);
  return {
    ...identity(BACKEND_TRAFFIC_POLICIES, service),
    spec: {
      targetRefs: [{ group: GATEWAY_API, kind: "HTTPRoute", name }],
      loadBalancer: { type: "LeastRequest" },
      retry: {
        numRetries: 2,
        // Only failures before the engine has the request: a retry of others would generate twice.
        retryOn: { triggers: ["connect-failure", "refused-stream", "reset-before-request"] },
      },
      timeout: { http: { streamIdleTimeout: REQUEST_TIMEOUT } },
      healthCheck: { active: healthCheckOf(service), panicThreshold: PANIC_PERCENT },
    },
  };
}

/** Health checks find a dead machine before its Lease expires. */
function healthCheckOf({ spec, status }: InferenceService): object {
  const often = { timeout: "1s", interval: "2s", unhealthyThreshold: 2, healthyThreshold: 1 };
  const path = healthPathOf(status?.runtime ?? spec.runtime, status?.on);
  return path === undefined ? { type: "TCP", ...often } : { type: "HTTP", ...often, http: { path } };
}

/** Engines on hosts answer /health themselves, or the gate in front of them does. */
function healthPathOf(runtime: InferenceService["spec"]["runtime"], on = "Hosts"): string | undefined {
  const entry = runtime && engineDescription(runtime);
  if (entry === undefined || entry.apiPaths.length === 0) return undefined;
  const isGate = entry.pod === undefined || (entry.isSharedDaemon && on === "Hosts");
  return isGate ? "/health" : entry.pod?.healthPath;
}

function identity(
  { group, version, kind }: Pick<Kind<KubeObject>, "group" | "version" | "kind">,
  service: InferenceService,
) {
  return {
    apiVersion: `${group}/${version}`,
    kind,
    metadata: {
      ...ownedObjectRef(service, serviceName(service.metadata.name)),
      labels: { ...ownerLabels(service), ...MANAGED_BY },
    },
  };
}
