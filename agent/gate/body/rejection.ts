/** The gate's reasons for rejecting requests. */

/** A request that is not passed to the engine; `reason` is its label in the metrics. */
export interface RequestRejection {
  readonly status: number;
  readonly reason: string;
  readonly message: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export function isRejection(outcome: object): outcome is RequestRejection {
  return "reason" in outcome;
}

export function rejectRequest(status: number, reason: string, message: string): RequestRejection {
  return { status, reason, message };
}

/** 503: the client may retry, at another endpoint or later. */
export function retryLater(reason: string, message: string): RequestRejection {
  return { ...rejectRequest(503, reason, message), headers: { "retry-after": "2" } };
}
