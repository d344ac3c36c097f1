/** The header with which a gateway names the service of a request to the service's endpoint. */

/**
 * `namespace/name` of the InferenceService that the gateway has chosen. The endpoint then accepts any model name, because the
 * gateway has resolved it, and rejects the request if another service has the address by now. A client that sends the header
 * to an endpoint gains nothing: the endpoint still serves its own model only.
 */
export const SERVICE_HEADER = "x-metalbridge-cluster";
