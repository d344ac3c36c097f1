/** Converts responses and network errors to typed failures, and failures to catalog errors. */

import { type ErrorCode, MetalbridgeError, remedyOf } from "../api/errors.ts";
import { parseJson } from "../util/parse-json.ts";
import { truncate } from "../util/text.ts";
import type { ApiFailure, FailureKind } from "./types.ts";

/** `reason` of a failure because the server does not serve the kind (CRDs not installed), as opposed to a missing object. */
export const REASON_KIND_NOT_INSTALLED = "KindNotInstalled";
/** `reason` of a failure before the request was sent, because no credential could be obtained. */
export const REASON_CREDENTIAL_UNAVAILABLE = "CredentialUnavailable";

interface Status {
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
  readonly code?: number | undefined;
  readonly name?: string | undefined;
  readonly retryAfterSeconds?: number | undefined;
  /** Fields that another manager owns, after an apply. */
  readonly conflictFields: readonly string[];
}

const MAX_MESSAGE = 2_000;
/** Maximum Retry-After that is honored: waiting for days helps no client, and a timer of weeks would fire immediately. */
const MAX_RETRY_AFTER_S = 60;

/** Failure of a response with a status other than 2xx. */
export function failureOfResponse(
  status: number,
  headers: Record<string, string | string[] | undefined>,
  body: string,
): ApiFailure {
  const parsed = readStatus(parseJson(body));
  const failure = failureOf(parsed ?? { message: plainMessage(status, body), conflictFields: [] }, status);
  const retryAfterMs = parseRetryAfter(headers["retry-after"]) ?? failure.retryAfterMs;
  if (status === 404 && isKindMissing(parsed)) {
    return { ...failure, kind: "unavailable", reason: REASON_KIND_NOT_INSTALLED };
  }
  return retryAfterMs === undefined ? failure : { ...failure, retryAfterMs };
}

/** Failure of a `Status` object in an ERROR event of a watch. */
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

/** Failure of a network exception: refused, reset, timed out, certificate not trusted. */
export function failureOfNetwork(error: unknown, server: string): ApiFailure {
  const { code, message } = describe(error);
  return { kind: "unreachable", status: 0, reason: code, message: `${server}: ${message}` };
}

/** Failure of a 2xx response with an unexpected body, which another server than the API server has sent. */
export function failureOfBadBody(body: string): ApiFailure {
  return { kind: "unexpected", status: 200, reason: "NotKubernetes", message: plainMessage(200, body) };
}

/** True if there was no response, or a response of unavailable without Retry-After. */
export function isApiUnavailable({ kind, reason, retryAfterMs }: ApiFailure): boolean {
  if (kind === "unreachable") return true;
  return kind === "unavailable" && retryAfterMs === undefined && reason !== REASON_KIND_NOT_INSTALLED;
}

/** Catalog error of a failure, for conditions, Events and the command line. `known` is what the remedy may name. */
export function explainFailure(
  failure: ApiFailure,
  known: Readonly<Record<string, string>> = {},
): MetalbridgeError {
  const code = codeOf(failure);
  return new MetalbridgeError(code, failure.message, remedyOf(code, known));
}

const KINDS_BY_STATUS: Readonly<Record<number, FailureKind>> = {
  400: "invalid",
  401: "unauthorized",
  403: "forbidden",
  404: "notFound",
  408: "unavailable",
  410: "gone",
  413: "invalid",
  422: "invalid",
  429: "throttled",
};

function kindOf(code: number, reason: string, message: string): FailureKind {
  // The server reports an apply with the uid of a deleted object as a conflict.
  if (code === 409 && message.includes("no existing object was found")) return "notFound";
  if (code === 409) return reason === "AlreadyExists" ? "alreadyExists" : "conflict";
  return KINDS_BY_STATUS[code] ?? (code >= 500 ? "unavailable" : "unexpected");
}

const CODES: Readonly<Record<FailureKind, ErrorCode>> = {
  notFound: "ApiObjectNotFound",
  alreadyExists: "ApiObjectConflict",
  conflict: "ApiObjectConflict",
  gone: "ApiObjectConflict",
  invalid: "ApiObjectInvalid",
  forbidden: "ApiForbidden",
  unauthorized: "ApiUnauthorized",
  throttled: "ApiThrottled",
  unavailable: "ApiUnavailable",
  unreachable: "ApiUnreachable",
  unexpected: "ApiUnexpected",
};

function codeOf({ kind, reason }: ApiFailure): ErrorCode {
  if (reason === REASON_CREDENTIAL_UNAVAILABLE) return "ApiCredentialUnavailable";
  if (reason === REASON_KIND_NOT_INSTALLED) return "CrdsNotInstalled";
  const isUntrusted = kind === "unreachable" && /CERT|SIGNATURE|SELF_SIGNED|ALTNAME/.test(reason);
  return isUntrusted ? "ApiCertificateUntrusted" : CODES[kind];
}

function isKindMissing(status: Status | undefined): boolean {
  // The server answers "404 page not found" for an unknown group, and this sentence without a name for an unknown kind.
  if (status === undefined) return true;
  return status.message === "the server could not find the requested resource" && (status.name ?? "") === "";
}

/** Does not use zod, which would double the size of the API client. Fields of an unexpected type are dropped. */
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
  // Node tried several addresses (IPv4 and IPv6): the parts have the messages.
  if (error instanceof AggregateError && error.errors.length > 0) return describe(error.errors[0]);
  const code = "code" in error && typeof error.code === "string" ? error.code : "Unknown";
  return { code, message: error.message };
}
