/** One line of Envoy's access log: the end of one request. Pure. */

/** A finished request, as the decision service counts it. */
export interface FinishedRequest {
  /** The value of `x-metalbridge-ticket` that the decision service answered with; absent: it was refused, or never asked. */
  readonly ticket?: string;
  readonly requestId: string;
  readonly status: number;
  /** Envoy's response flags, such as DC (client hung up) or UH (no healthy endpoint); absent: none. */
  readonly flags?: string;
  /** Envoy's reason for its own answer, or via_upstream. */
  readonly details?: string;
  readonly method: string;
  /** Without the query. */
  readonly path: string;
  readonly cluster?: string;
  /** `ip:port` of the endpoint that answered, or was tried last. */
  readonly endpoint?: string;
  readonly attempts: number;
  readonly bytesReceived: number;
  readonly bytesSent: number;
  /** When it arrived, in ms since the epoch. */
  readonly startedMs: number;
  readonly durationMs: number;
  /** From the arrival to the first byte of the response; absent: no response from an endpoint. */
  readonly firstByteMs?: number;
  /** Absent: the response has no usage, or the client left before it. */
  readonly tokens?: { readonly in: number; readonly out: number; readonly cached: number };
}
