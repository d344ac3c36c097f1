/** What a failed call means for a pass. */
import type { ApiFailure } from "../../../src/kube/types.ts";

/** A failed call; it aborts the pass, and the queue retries after its backoff. */
export class ApiCallFailed extends Error {
  readonly failure: ApiFailure;

  /** The queue waits at least this long. */
  get retryAfterMs(): number | undefined {
    return this.failure.retryAfterMs;
  }

  /** A right may be granted at any time; the queue spaces the retries. */
  get retryWithinMs(): number | undefined {
    return this.failure.kind === "forbidden" && !isTerminating(this.failure) ? 3_000 : undefined;
  }

  constructor(what: string, failure: ApiFailure) {
    super(`${what}: ${failure.message}`);
    this.name = "ApiCallFailed";
    this.failure = failure;
  }
}

/** Creates are rejected in a namespace that is being deleted; retrying soon would loop without end. */
export function isTerminating({ kind, message }: ApiFailure): boolean {
  return kind === "forbidden" && message.includes("being terminated");
}
