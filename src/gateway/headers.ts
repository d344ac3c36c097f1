/** Headers between clients, gateways and the endpoints of services. */

/** A client that sends this header, with any value, learns which host answered. Other clients learn no name of a machine. */
export const ASK_HOST_HEADER = "x-show-host";
/** Name of the host or node that answered. */
export const HOST_HEADER = "x-metalbridge-host";

/**
 * `namespace/name` of the InferenceService that the gateway has chosen. The endpoint then accepts any model name, because the
 * gateway has resolved it, and rejects the request if another service has the address by now. A client that sends the header
 * to an endpoint gains nothing: the endpoint still serves its own model only.
 */
export const SERVICE_HEADER = "x-metalbridge-cluster";
