/** Objects that the API server rejects. The others are still created, and the status of the service reports the rejection. */

import type { ConditionUpdate } from "../../../src/api/conditions.ts";
import type { ApiFailure } from "../../../src/kube/types.ts";

const CODES = ["ApiForbidden", "ApiObjectRefused", "ObjectNameTaken", "QuotaExceeded"] as const;
type RejectionCode = (typeof CODES)[number];

export interface Rejection {
  /** For example `create Service chat`. */
  readonly what: string;
  readonly code: RejectionCode;
  /** Message of the API server, if it rejected the call. */
  readonly message: string;
}

/** Undefined if a retry may succeed, because the server did not answer or another client wrote first. */
export function rejectionOf(what: string, failure: ApiFailure): Rejection | undefined {
  const { kind, message } = failure;
  if (kind !== "invalid" && kind !== "forbidden" && !isWebhookFailure(failure)) return undefined;
  return { what, code: kind === "forbidden" ? forbiddenCode(message) : "ApiObjectRefused", message };
}

/** Retries the pass soon, because only a retry shows whether the cause was corrected. */
export class PartialRejection extends Error {
  readonly retryWithinMs = 3_000;

  constructor(rejections: readonly Rejection[]) {
    super(describeRejections(rejections));
    this.name = "NotAllTaken";
  }
}

/** The message does not depend on the order of the rejections. */
export function describeRejections(rejections: readonly Rejection[]): string {
  const [first, ...others] = sorted(rejections);
  if (first === undefined) return "";
  const more = others.length === 0 ? "" : `; and ${others.length} more`;
  return `${first.what}: ${first.message}${more}; retried automatically`;
}

/** Undefined without a rejection. */
export function rejectedCondition(
  type: string,
  status: ConditionUpdate["status"],
  rejections: readonly Rejection[],
): ConditionUpdate | undefined {
  const reason = codeOfRejections(rejections);
  return reason && { type, status, reason, message: describeRejections(rejections) };
}

/** The code that belongs to the message of `describeRejections`. */
export function codeOfRejections(rejections: readonly Rejection[]): RejectionCode | undefined {
  return sorted(rejections)[0]?.code;
}

function sorted(rejections: readonly Rejection[]): readonly Rejection[] {
  return rejections.toSorted((a, b) => (a.what < b.what ? -1 : 1));
}

/** Distinguishes a missing permission from an object that no client may create. */
function forbiddenCode(message: string): RejectionCode {
  if (message.includes("exceeded quota:")) return "QuotaExceeded";
  return / is forbidden: User ".*" cannot /.test(message) ? "ApiForbidden" : "ApiObjectRefused";
}

/** With failurePolicy Fail, the API server reports an admission webhook that does not answer as a server error. */
function isWebhookFailure({ kind, message }: ApiFailure): boolean {
  return kind === "unavailable" && message.includes("failed calling webhook");
}
