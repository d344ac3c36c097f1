/** From what a server or a network did to a typed failure, and from a failure to the catalog. */

import { type ErrorCode, MetalbridgeError } from "../api/errors.ts";
import { truncate } from "../util/text.ts";
import type { ApiFailure, FailureKind } from "./types.ts";

/** `reason` of a failure whose kind of object the server does not serve: CRDs not installed. Never the same as an object that is not there. */
export const REASON_KIND_NOT_INSTALLED = "KindNotInstalled";
/** `reason` of a failure before the request was sent: no credential could be had. */
export const REASON_CREDENTIAL_UNAVAILABLE = "CredentialUnavailable";

interface Status {
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
  readonly code?: number | undefined;
  readonly name?: string | undefined;
  readonly retryAfterSeconds?: number | undefined;
  /** After an apply: fields that another manager owns. */
  readonly conflictFields: readonly string[];
}

const MAX_MESSAGE = 2_000;
/** Caps what a server asks for: waiting for days helps no client, and a timer of weeks would fire at once. */
const MAX_RETRY_AFTER_S = 60;

/** The failure behind an HTTP response that is not 2xx. */
export function failureOfResponse(
  status: number,
  headers: Record<string, string | string[] | undefined>,
  body: string,
): ApiFailure {
  const parsed = parseStatus(body);
  const failure = failureOf(parsed ?? { message: plainMessage(status, body), conflictFields: [] }, status);
  const retryAfterMs = parseRetryAfter(headers["retry-after"]) ?? failure.retryAfterMs;
  if (status === 404 && isKindMissing(parsed)) {
    return { ...failure, kind: "unavailable", reason: REASON_KIND_NOT_INSTALLED };
  }
  return retryAfterMs === undefined ? failure : { ...failure, retryAfterMs };
}

/** The failure a `Status` object describes, as it comes in responses and as an ERROR event of a watch. */
export function failureOfStatus(status: unknown): ApiFailure {
  return failureOf(readStatus(status) ?? { conflictFields: [] }, 0);
}

function failureOf(known: Status, httpStatus: number): ApiFailure {
  const code = known.code ?? httpStatus;
  const reason = known.reason ?? "";
  const failure: ApiFailure = {
    kind: kindOf(code, reason, known.message ?? ""),
    status: code,
    reason: reason === "" ? `Http${code}` : reason,
    message: truncate(known.message ?? `the API server answered ${code}`, MAX_MESSAGE),
    conflictFields: known.conflictFields.length === 0 ? undefined : known.conflictFields,
  };
  const seconds = known.retryAfterSeconds;
  return seconds === undefined || seconds <= 0 ? failure : { ...failure, retryAfterMs: retryMs(seconds) };
}

/** The failure behind an exception of the network: refused, reset, timed out, certificate not trusted. */
export function failureOfNetwork(error: unknown, server: string): ApiFailure {
  const { code, message } = describe(error);
  return { kind: "unreachable", status: 0, reason: code, message: `${server}: ${message}` };
}

/** A 2xx answer that is not what was asked for: something else than the API server answers there. */
export function failureOfBadBody(body: string): ApiFailure {
  return { kind: "unexpected", status: 200, reason: "NotKubernetes", message: plainMessage(200, body) };
}

/** No answer, or an answer of unavailable without Retry-After. */
export function isApiUnavailable({ kind, reason, retryAfterMs }: ApiFailure): boolean {
  if (kind === "unreachable") return true;
  return kind === "unavailable" && retryAfterMs === undefined && reason !== REASON_KIND_NOT_INSTALLED;
}

/** The catalog's error for a failure: for conditions, events and the command line. */
export function explainFailure(failure: ApiFailure): MetalbridgeError {
  return new MetalbridgeError(codeOf(failure), failure.message);
}

function kindOf(code: number, reason: string, message: string): FailureKind {
  // An apply that carries the uid of an object that is gone: the server calls it a conflict.
  if (code === 409 && message.includes("no existing object was found")) return "notFound";
  if (code === 409) return reason === "AlreadyExists" ? "alreadyExists" : "conflict";
  if (code >= 500) return "unavailable";
  switch (code) {
    case 400:
    case 413:
    case 422:
      return "invalid";
    case 401:
      return "unauthorized";
    case 403:
      return "forbidden";
    case 404:
      return "notFound";
    case 408:
      return "unavailable";
    case 410:
      return "gone";
    case 429:
      return "throttled";
    default:
      return "unexpected";
  }
}

function codeOf(failure: ApiFailure): ErrorCode {
  switch (failure.kind) {
    case "notFound":
      return "ApiObjectNotFound";
    case "alreadyExists":
    case "conflict":
    case "gone":
      return "ApiObjectConflict";
    case "invalid":
      return "ApiObjectInvalid";
    case "forbidden":
      return "ApiForbidden";
    case "unauthorized":
      return failure.reason === REASON_CREDENTIAL_UNAVAILABLE
        ? "ApiCredentialUnavailable"
        : "ApiUnauthorized";
    case "throttled":
      return "ApiThrottled";
    case "unavailable":
      return failure.reason === REASON_KIND_NOT_INSTALLED ? "CrdsNotInstalled" : "ApiUnavailable";
    case "unreachable":
      return /CERT|SIGNATURE|SELF_SIGNED|ALTNAME/.test(failure.reason)
        ? "ApiCertificateUntrusted"
        : "ApiUnreachable";
    case "unexpected":
      return "ApiUnexpected";
    default:
      return failure.kind satisfies never;
  }
}

function isKindMissing(status: Status | undefined): boolean {
  // Unknown group: plain text "404 page not found". Unknown kind in a known group: this sentence, without a name.
  if (status === undefined) return true;
  return status.message === "the server could not find the requested resource" && (status.name ?? "") === "";
}

function parseStatus(body: string): Status | undefined {
  try {
    return readStatus(JSON.parse(body));
  } catch {
    return undefined;
  }
}

/** Without zod, which would double the API client's size. Any server may answer: fields of another type are dropped. */
function readStatus(value: unknown): Status | undefined {
  if (fieldOf(value, "kind") !== "Status") return undefined;
  const text = (from: unknown, key: string) => {
    const found = fieldOf(from, key);
    return typeof found === "string" ? found : undefined;
  };
  const number = (from: unknown, key: string) => {
    const found = fieldOf(from, key);
    return typeof found === "number" ? found : undefined;
  };
  const details = fieldOf(value, "details");
  const causes = fieldOf(details, "causes");
  const owned = (Array.isArray(causes) ? causes : []).filter(
    (cause) => text(cause, "reason") === "FieldManagerConflict",
  );
  return {
    reason: text(value, "reason"),
    message: text(value, "message"),
    code: number(value, "code"),
    name: text(details, "name"),
    retryAfterSeconds: number(details, "retryAfterSeconds"),
    conflictFields: owned.flatMap((cause) => text(cause, "field") ?? []),
  };
}

function fieldOf(value: unknown, key: string): unknown {
  return typeof value === "object" && value !== null && key in value ? Reflect.get(value, key) : undefined;
}

function plainMessage(status: number, body: string): string {
  const text = truncate(body.replaceAll(/\s+/g, " ").trim(), 200);
  return text === "" ? `the API server answered ${status}` : `the API server answered ${status}: ${text}`;
}

function parseRetryAfter(header: string | string[] | undefined): number | undefined {
  const seconds = Number(Array.isArray(header) ? header[0] : header);
  return Number.isFinite(seconds) && seconds > 0 ? retryMs(seconds) : undefined;
}

function retryMs(seconds: number): number {
  return Math.min(seconds, MAX_RETRY_AFTER_S) * 1_000;
}

function describe(error: unknown): { code: string; message: string } {
  if (!(error instanceof Error)) return { code: "Unknown", message: String(error) };
  // Several addresses tried (IPv4 and IPv6): the sentences are in the parts.
  if (error instanceof AggregateError && error.errors.length > 0) return describe(error.errors[0]);
  const code = "code" in error && typeof error.code === "string" ? error.code : "Unknown";
  return { code, message: error.message };
}
