/** The error of a failed API call, which aborts a pass. */
import type { ApiFailure, ApiResult } from "../../../src/kube/types.ts";

/** Aborts the pass. The queue retries it after a backoff. */
export class ApiCallFailed extends Error {
  readonly failure: ApiFailure;

  /** The queue waits at least this long. */
  get retryAfterMs(): number | undefined {
    return this.failure.retryAfterMs;
  }

  /** A permission may be granted at any time, so the retry comes soon. The queue spaces the retries. */
  get retryWithinMs(): number | undefined {
    return this.failure.kind === "forbidden" && !isTerminating(this.failure) ? 3_000 : undefined;
  }

  constructor(action: string, failure: ApiFailure) {
    super(`${action}: ${failure.message}`);
    this.name = "ApiCallFailed";
    this.failure = failure;
  }
}

/** Returns false after a conflict, because another client wrote first. "Not found" counts as success; other failures throw. */
export function isSettled(action: string, result: ApiResult<unknown>): boolean {
  if (result.ok || result.error.kind === "notFound") return true;
  if (result.error.kind === "conflict") return false;
  throw new ApiCallFailed(action, result.error);
}

/** True if a create was rejected because its namespace is being deleted, so a quick retry would loop. */
export function isTerminating({ kind, message }: ApiFailure): boolean {
  return kind === "forbidden" && message.includes("being terminated");
}
