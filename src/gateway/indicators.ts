/** Metrics of the gateway that service level objectives count: it is the only part that sees requests which reach no replica. */

/** Requests by namespace, service and status code. */
export const REQUESTS_METRIC = "metalbridge_gateway_requests_total";
/** Histogram of the requests that the service has not failed. */
export const FIRST_BYTE_METRIC = "metalbridge_gateway_time_to_first_byte_seconds";
/** Status codes of requests that the service has failed, as a regular expression of Prometheus: an overload is one too. */
export const FAILURE_CODES = "5..|429";
export const isServiceFailure = (status: number): boolean => status >= 500 || status === 429;
/** Upper bounds of the gateway's histograms, in seconds. */
export const LATENCY_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300] as const;
