/** What a failed call means for a pass. */
import type { ApiFailure } from "../../src/kube/types.ts";

/** A call that did not succeed; ends the pass, and the queue tries again after its backoff. */
export class ApiCallFailed extends Error {
  readonly failure: ApiFailure;

  /** The queue waits at least so long. */
  get retryAfterMs(): number | undefined {
    return this.failure.retryAfterMs;
  }

  constructor(what: string, failure: ApiFailure) {
    super(`${what}: ${failure.message}`);
    this.name = "ApiCallFailed";
    this.failure = failure;
  }
}

/** Creates are refused in a namespace that is being deleted; trying again soon would be a loop without an end. */
export function isTerminating({ kind, message }: ApiFailure): boolean {
  return kind === "forbidden" && message.includes("being terminated");
}
