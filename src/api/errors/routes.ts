/** Model names of services on gateways, and their routes. */
import type { ErrorEntry } from "./entry.ts";

export const routeErrors = {
  ModelNameTaken: {
    what: "A model name in spec.endpoint.modelNames (or gateway.modelName) of the service belongs to another service: one that has claimed it for longer, or one whose namespace and name it is. Gateways send requests for the name to that service. The message names both services.",
    do: "remove the name from one of the two services, or, to share it within a namespace, give it a weight in both; clients can always use NAMESPACE/NAME",
    command:
      "kubectl get isvc -A -o custom-columns=NAMESPACE:.metadata.namespace,NAME:.metadata.name,NAMES:.spec.endpoint.modelNames[*].name",
  },
  ModelNameReserved: {
    what: "A model name in spec.endpoint.modelNames (or gateway.modelName) of the service begins with the name of another namespace and a slash. Only services of that namespace may have such a name. Also reported while the controller cannot read whether the namespace exists.",
    do: "remove the name, use one without that prefix, or create the service in that namespace; clients can always use NAMESPACE/NAME",
    command: "kubectl get namespaces",
  },
  GatewayNotSet: {
    what: "The service requests a route on a Gateway, but neither the service nor the controller names the Gateway.",
    do: "set spec.endpoint.gateway.gatewayRef of the service, or gateway.ref of the chart (a controller outside the cluster: --gateway-ref NAMESPACE/NAME)",
  },
  GatewayKindsMissing: {
    what: "The service requests a route on a Gateway, but the cluster lacks Envoy AI Gateway in version v1beta1 of its API, or Envoy Gateway.",
    do: "install Envoy Gateway 1.8.1 or newer and Envoy AI Gateway 1.0 or newer; the service then gets its route automatically",
    command: "kubectl get crd aigatewayroutes.aigateway.envoyproxy.io backends.gateway.envoyproxy.io",
  },
  GatewayRouteNotAccepted: {
    what: "Envoy AI Gateway or Envoy Gateway does not accept the route of the service. The message has their reason.",
    do: "check that the Gateway exists, that its listener allows routes from the namespace, and that Envoy Gateway runs with extensionApis.enableBackend: true",
    command: "kubectl describe aigatewayroute,httproute NAME",
  },
} as const satisfies Record<string, ErrorEntry>;
