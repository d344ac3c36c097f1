/** Metrics of the gateway that service level objectives count: it is the only part that sees requests which reach no replica. */

/** Requests by namespace, service and status code. */
export const REQUESTS_METRIC = "metalbridge_gateway_requests_total";
/** Histogram of the requests that were answered without a server error. */
export const FIRST_BYTE_METRIC = "metalbridge_gateway_time_to_first_byte_seconds";
/** Upper bounds of the gateway's histograms, in seconds. */
export const LATENCY_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300] as const;
