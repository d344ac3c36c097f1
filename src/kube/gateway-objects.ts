/** Objects of the Gateway API, of Envoy Gateway and of Envoy AI Gateway, as far as this project writes or reads them. */
import type { KubeObject } from "./types.ts";
import type { StatusCondition } from "./workload-objects.ts";

/** Endpoints outside of Services. */
export interface GatewayBackend extends KubeObject {
  spec: {
    endpoints?: readonly { ip: { address: string; port: number } }[];
    tls?: { caCertificateRefs: readonly { group: string; kind: string; name: string }[]; sni: string };
  };
}

/** The API that a Backend speaks. */
export interface AIServiceBackend extends KubeObject {
  spec: {
    schema: { name: "OpenAI" };
    backendRef: { group: string; kind: "Backend"; name: string };
    headerMutation: { set: readonly { name: string; value: string }[] };
  };
}

export interface AIGatewayRouteRule {
  matches: readonly { headers: readonly { type: "Exact"; name: string; value: string }[] }[];
  backendRefs: readonly {
    name: string;
    modelNameOverride?: string | undefined;
    weight?: number | undefined;
  }[];
  modelsOwnedBy: string;
  modelsCreatedAt?: string | undefined;
  timeouts: { request: string };
}

export interface AIGatewayRoute extends KubeObject {
  spec: {
    parentRefs: readonly { group: string; kind: "Gateway"; name: string; namespace: string }[];
    llmRequestCosts: readonly { metadataKey: string; type: string }[];
    rules: readonly AIGatewayRouteRule[];
  };
  status?: { conditions?: readonly StatusCondition[] };
}

export interface BackendTrafficPolicy extends KubeObject {
  spec: Readonly<Record<string, unknown>>;
}

/** The route that Envoy AI Gateway makes of an AIGatewayRoute. */
export interface HttpRoute extends KubeObject {
  status?: { parents?: readonly { conditions?: readonly StatusCondition[] }[] };
}
