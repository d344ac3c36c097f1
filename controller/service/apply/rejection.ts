/** Objects that the API server rejects: the rest of the service is still created, and its status says why. */
import type { ApiFailure } from "../../../src/kube/types.ts";

const CODES = ["ApiForbidden", "ApiObjectRefused", "ObjectNameTaken", "QuotaExceeded"] as const;
type RejectionCode = (typeof CODES)[number];

export interface Rejection {
  /** As in `create Service chat`. */
  readonly what: string;
  readonly code: RejectionCode;
  /** The API server's own message, where it rejected the call. */
  readonly message: string;
}

/** Undefined if a retry may succeed: the server did not answer, or another client wrote first. */
export function rejectionOf(what: string, failure: ApiFailure): Rejection | undefined {
  const { kind, message } = failure;
  if (kind !== "invalid" && kind !== "forbidden" && !isDeafWebhook(failure)) return undefined;
  return { what, code: kind === "forbidden" ? forbiddenCode(message) : "ApiObjectRefused", message };
}

/** The pass is retried soon, and only for as long as it fails: only a retry shows whether the cause was corrected. */
export class PartialRejection extends Error {
  readonly retryWithinMs = 3_000;

  constructor(rejections: readonly Rejection[]) {
    super(describeRejections(rejections));
    this.name = "NotAllTaken";
  }
}

/** The same message for the same rejections, in whatever order they came. */
export function describeRejections(rejections: readonly Rejection[]): string {
  const [first, ...others] = [...rejections].sort((a, b) => (a.what < b.what ? -1 : 1));
  if (first === undefined) return "";
  const more = others.length === 0 ? "" : `; and ${others.length} more`;
  return `${first.what}: ${first.message}${more}; retried automatically`;
}

/** The code that goes with the sentence. */
export function codeOfRejections(rejections: readonly Rejection[]): RejectionCode | undefined {
  return [...rejections].sort((a, b) => (a.what < b.what ? -1 : 1))[0]?.code;
}

/** Distinguishes a missing right from an object that no client may create. */
function forbiddenCode(message: string): RejectionCode {
  if (message.includes("exceeded quota:")) return "QuotaExceeded";
  return / is forbidden: User ".*" cannot /.test(message) ? "ApiForbidden" : "ApiObjectRefused";
}

/**
 * With failurePolicy Fail, the API server rejects what a webhook does not answer, with the message of a
 * server error.
 */
function isDeafWebhook({ kind, message }: ApiFailure): boolean {
  return kind === "unavailable" && message.includes("failed calling webhook");
}
