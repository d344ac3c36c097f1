/** Failures of looking at a source: the code, and whether it may pass by itself. */
import { type ErrorCode, MetalbridgeError } from "../../../src/errors.ts";

export class LookFailure extends Error {
  readonly reason: MetalbridgeError;
  readonly isPassing: boolean;
  readonly retryAfterMs: number | undefined;

  constructor(reason: MetalbridgeError, isPassing: boolean, retryAfterMs?: number) {
    super(reason.message, { cause: reason });
    this.name = "LookFailure";
    this.reason = reason;
    this.isPassing = isPassing;
    this.retryAfterMs = retryAfterMs;
  }
}

/** May pass by itself: tried again soon, with backoff. */
export function passing(
  code: ErrorCode,
  message: string,
  cause?: unknown,
  retryAfterMs?: number,
): LookFailure {
  return new LookFailure(new MetalbridgeError(code, message, undefined, { cause }), true, retryAfterMs);
}

/** Will not pass until somebody changes something: looked at again rarely. */
export function lasting(code: ErrorCode, message: string, cause?: unknown): LookFailure {
  return new LookFailure(new MetalbridgeError(code, message, undefined, { cause }), false);
}

/** What a status other than success means for a source. */
export function statusFailure(url: URL, status: number, retryAfter?: string): LookFailure {
  const said = `${plainUrl(url)} answered ${status}`;
  if (status === 401) return lasting("SourceUnauthorized", said);
  if (status === 403) return lasting("SourceForbidden", said);
  if (status === 404 || status === 410) return lasting("SourceNotFound", said);
  if (status === 408 || status === 425 || status === 429 || status >= 500) {
    return passing("SourceUnavailable", said, undefined, retryAfterMs(retryAfter));
  }
  return lasting("SourceRefused", said);
}

const MAX_RETRY_AFTER_MS = 3_600_000;

function retryAfterMs(value: string | undefined): number | undefined {
  return value !== undefined && /^\d{1,6}$/.test(value)
    ? Math.min(Number(value) * 1000, MAX_RETRY_AFTER_MS)
    : undefined;
}

/** The address without query and fragment: signed addresses carry secrets there, and messages go into status. */
export function plainUrl(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname}`;
}
