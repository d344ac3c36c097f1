/** Names that the filters, the routes and the access log share with the decision service. */

import { HOST_HEADER } from "../../src/gateway/host-header.ts";
import { SERVICE_HEADER } from "../../src/gateway/service-header.ts";

export const HEADERS = {
  /** From the decision service: the cluster that serves the request. The endpoint gets it, too. */
  cluster: SERVICE_HEADER,
  /** From the decision service: endpoints in the order of the tries. */
  endpoint: "x-gateway-destination-endpoint",
  /** From the decision service: its own name of the request, for the access log. */
  ticket: "x-metalbridge-ticket",
  /** From the decision service, with a 4xx status: the 5xx status for the client, because Envoy takes an own 5xx for an outage. */
  status: "x-metalbridge-status",
  /** To the decision service: `model` of the body. */
  model: "x-metalbridge-model",
  /** To the decision service: `invalid` if the body is neither a JSON object nor a form. */
  body: "x-metalbridge-body",
  /** To the decision service: bytes of the body that has arrived. */
  bodyBytes: "x-metalbridge-body-bytes",
  /** To a client that asks: the host that answers. */
  host: HOST_HEADER,
} as const;

/** Only we may set them: removed from every client's request, and from every response. */
export const STEERING_PREFIXES = ["x-metalbridge-", "x-gateway-destination-endpoint", "x-envoy-"] as const;

/** A client's credentials. An engine gets the decision service's `authorization`, or none. */
export const CREDENTIAL_HEADERS = ["authorization", "x-api-key", "proxy-authorization", "cookie"] as const;

/** Namespaces of Envoy's dynamic metadata. */
export const METADATA = {
  request: "metalbridge.request",
  usage: "metalbridge.usage",
  decision: "envoy.filters.http.ext_authz",
  /** What an endpoint carries. */
  endpoint: "metalbridge.endpoint",
} as const;

/** The cluster of the decision service. */
export const DECIDE_CLUSTER = "metalbridge-decide";
