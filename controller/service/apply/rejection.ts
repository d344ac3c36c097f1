/** Objects that the API server does not take: the rest of a service is made all the same, and its status says why. */
import type { ApiFailure } from "../../../src/kube/types.ts";

const CODES = ["ApiForbidden", "ApiObjectRefused", "ObjectNameTaken", "QuotaExceeded"] as const;
type RejectionCode = (typeof CODES)[number];

export interface Rejection {
  /** As in `create Service chat`. */
  readonly what: string;
  readonly code: RejectionCode;
  /** In the API server's own words, where it was the one that said no. */
  readonly message: string;
}

/** Undefined where the call may succeed if it is only made again: nobody answered, or somebody else was first. */
export function rejectionOf(what: string, failure: ApiFailure): Rejection | undefined {
  const { kind, message } = failure;
  if (kind !== "invalid" && kind !== "forbidden" && !isDeafWebhook(failure)) return undefined;
  return { what, code: kind === "forbidden" ? forbiddenCode(message) : "ApiObjectRefused", message };
}

/** Made ever more rarely while nothing of the service changes: only trying again tells. */
export class NotAllTaken extends Error {
  constructor(rejections: readonly Rejection[]) {
    super(tellRejections(rejections));
    this.name = "NotAllTaken";
  }
}

/** The same sentence for the same rejections, in whatever order they came. */
export function tellRejections(rejections: readonly Rejection[]): string {
  const [first, ...others] = [...rejections].sort((a, b) => (a.what < b.what ? -1 : 1));
  if (first === undefined) return "";
  const more = others.length === 0 ? "" : `; and ${others.length} more`;
  return `${first.what}: ${first.message}${more}; it is tried again by itself`;
}

/** The code that goes with the sentence. */
export function codeOfRejections(rejections: readonly Rejection[]): RejectionCode | undefined {
  return [...rejections].sort((a, b) => (a.what < b.what ? -1 : 1))[0]?.code;
}

/** Is a reason that a status gives one of these? */
export function isRejection(reason: string): boolean {
  return CODES.some((code) => code === reason);
}

/** A right that is missing is another matter than an object that nobody may make. */
function forbiddenCode(message: string): RejectionCode {
  if (message.includes("exceeded quota:")) return "QuotaExceeded";
  return / is forbidden: User ".*" cannot /.test(message) ? "ApiForbidden" : "ApiObjectRefused";
}

/** With failurePolicy Fail what a webhook does not answer is refused, with the words of an error of the server. */
function isDeafWebhook({ kind, message }: ApiFailure): boolean {
  return kind === "unavailable" && message.includes("failed calling webhook");
}
