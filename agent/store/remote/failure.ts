/** What went wrong with one attempt at a source: the typed error, and whether another attempt can help. */
import { type ErrorCode, MetalbridgeError } from "../../../src/errors.ts";

export class AttemptFailure extends Error {
  readonly error: MetalbridgeError;
  readonly canPass: boolean;
  /** What the server asked for by Retry-After. */
  readonly retryAfterMs: number | undefined;
  /** How many new bytes the attempt brought all the same. */
  gainedBytes = 0;

  constructor(error: MetalbridgeError, canPass: boolean, retryAfterMs?: number) {
    super(error.message, { cause: error });
    this.name = "AttemptFailure";
    this.error = error;
    this.canPass = canPass;
    this.retryAfterMs = retryAfterMs;
  }
}

/** A failure that may pass by itself. */
export function passing(code: ErrorCode, message: string, cause?: unknown): AttemptFailure {
  return new AttemptFailure(new MetalbridgeError(code, message, undefined, { cause }), true);
}

/** A failure that stays until somebody changes something. */
export function lasting(code: ErrorCode, message: string, cause?: unknown): AttemptFailure {
  return new AttemptFailure(new MetalbridgeError(code, message, undefined, { cause }), false);
}

/** The failure that an HTTP status stands for. */
export function statusFailure(url: URL, status: number, retryAfter: string | undefined): AttemptFailure {
  const message = `${plainUrl(url)} answered ${status}`;
  if (status === 401) return lasting("SourceUnauthorized", message);
  if (status === 403) return lasting("SourceForbidden", message);
  if (status === 404 || status === 410) return lasting("SourceNotFound", message);
  if (status === 408 || status === 425 || status === 429 || status >= 500) {
    const seconds = Number(retryAfter);
    const waitMs = Number.isFinite(seconds) && seconds > 0 ? seconds * 1000 : undefined;
    return new AttemptFailure(new MetalbridgeError("SourceUnavailable", message), true, waitMs);
  }
  return lasting("SourceRefused", message);
}

/** The address as it may be shown: without user, password, query and fragment, which can hold secrets. */
export function plainUrl(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname}`;
}
