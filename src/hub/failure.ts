/** The failure of one attempt at a source: the typed error, and whether a retry can succeed. */
import { type ErrorCode, MetalbridgeError } from "../api/errors.ts";

export class SourceFailure extends Error {
  readonly error: MetalbridgeError;
  /** True if a retry may succeed without any change. */
  readonly isTransient: boolean;
  /** The server's Retry-After. */
  readonly retryAfterMs: number | undefined;
  /** Number of new bytes that the attempt stored before it failed. */
  gainedBytes = 0;

  constructor(error: MetalbridgeError, isTransient: boolean, retryAfterMs?: number) {
    super(error.message, { cause: error });
    this.name = "SourceFailure";
    this.error = error;
    this.isTransient = isTransient;
    this.retryAfterMs = retryAfterMs;
  }
}

/** A failure worth a retry. */
export function transient(code: ErrorCode, message: string, cause?: unknown): SourceFailure {
  return new SourceFailure(new MetalbridgeError(code, message, undefined, { cause }), true);
}

/** A failure that persists until the source, the spec or the configuration changes. */
export function permanent(code: ErrorCode, message: string, cause?: unknown): SourceFailure {
  return new SourceFailure(new MetalbridgeError(code, message, undefined, { cause }), false);
}

/** A source that hosts or the controller may not read; `summary` is what allows it, or what to use instead. */
export function notAllowed(message: string, summary: string): SourceFailure {
  return new SourceFailure(new MetalbridgeError("SourceNotAllowed", message, { summary }), false);
}

/** True if the same request without a Range header may succeed: some servers answer a range with an error or other bytes. */
export function mayBeOfRange(error: unknown): error is SourceFailure {
  return (
    error instanceof SourceFailure &&
    !error.isTransient &&
    ![...Object.values(PERMANENT_STATUS), "GgufTooLarge"].includes(error.error.code)
  );
}

const PERMANENT_STATUS: Readonly<Record<number, ErrorCode>> = {
  401: "SourceUnauthorized",
  403: "SourceForbidden",
  404: "SourceNotFound",
  410: "SourceNotFound",
};
const TRANSIENT_STATUS = new Set([408, 425, 429]);
const MAX_RETRY_AFTER_SECONDS = 3_600;

/** The one table from HTTP status to error code. */
export function statusFailure(url: URL, status: number, retryAfter: string | undefined): SourceFailure {
  const message = `${plainUrl(url)} answered ${status}`;
  if (status < 500 && !TRANSIENT_STATUS.has(status))
    return permanent(PERMANENT_STATUS[status] ?? "SourceRefused", message);
  const error = new MetalbridgeError("SourceUnavailable", message);
  const seconds = /^\d{1,9}$/.test(retryAfter ?? "") ? Number(retryAfter) : 0;
  return new SourceFailure(error, true, Math.min(seconds, MAX_RETRY_AFTER_SECONDS) * 1000 || undefined);
}

/** The address without user, password, query and fragment, which may contain secrets. */
export function plainUrl(url: URL): string {
  return `${url.protocol}//${url.host}${url.pathname}`;
}

/** Returns a check that a plain address is below `base`. */
export function isBelowUrl(base: string): (address: string) => boolean {
  const start = plainUrl(new URL(base));
  return (address) => address.startsWith(start);
}
