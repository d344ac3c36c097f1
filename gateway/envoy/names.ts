/** Names that the filters, the routes and the access log share with the decision service. */
import { HOST_HEADER, SERVICE_HEADER } from "../../src/gateway/headers.ts";

export const HEADERS = {
  /** From the decision service: the cluster that serves the request. Also sent to the endpoint. */
  cluster: SERVICE_HEADER,
  /** From the decision service: endpoints to try, in order. */
  endpoint: "x-gateway-destination-endpoint",
  /** From the decision service, for the access log: the encoded `Assignment`. */
  ticket: "x-metalbridge-ticket",
  /** From the decision service, with a 4xx status: the 5xx status for the client. Envoy treats a 5xx decision as an outage. */
  status: "x-metalbridge-status",
  /** From the decision service: `close` if the engine closes the connection after this response, so that it announces that. */
  connection: "x-metalbridge-connection",
  /** To the decision service: whether the body asks for a stream, `true` or `false`; absent: the body was not read. */
  stream: "x-metalbridge-stream",
  /** To the decision service: `model` of the body. */
  model: "x-metalbridge-model",
  /** To the decision service: `invalid` if the body is neither a JSON object nor a form. */
  body: "x-metalbridge-body",
  /** To the decision service: size of the body in bytes. */
  bodyBytes: "x-metalbridge-body-bytes",
  /** To a client that asks: the host that answered. */
  host: HOST_HEADER,
} as const;

/** Reserved for the gateway: removed from every client's request, and from every response. */
export const STEERING_PREFIXES = ["x-metalbridge-", "x-gateway-destination-endpoint", "x-envoy-"] as const;

/** Removed from requests of clients. An engine gets only the `authorization` of the decision service, if any. */
export const CREDENTIAL_HEADERS = ["authorization", "x-api-key", "proxy-authorization", "cookie"] as const;

/** Namespaces of Envoy's dynamic metadata. */
export const METADATA_NAMESPACES = {
  request: "metalbridge.request",
  usage: "metalbridge.usage",
  decision: "envoy.filters.http.ext_authz",
  /** Metadata of an endpoint. */
  endpoint: "metalbridge.endpoint",
  /** Metadata of an endpoint by which its cluster chooses TLS or plain HTTP; the name is Envoy's. */
  transport: "envoy.transport_socket_match",
} as const;

/** In the metadata of a sealed endpoint. */
export const SEALED = { key: "transport", value: "Sealed" } as const;

/** The cluster of the decision service. */
export const DECIDE_CLUSTER = "metalbridge-decide";
/** The cluster of the server that sends endpoints to Envoy, and to which Envoy reports answered requests. */
export const ENDPOINTS_CLUSTER = "metalbridge-endpoints";
