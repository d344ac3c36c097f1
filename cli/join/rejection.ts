/** The rejection of a request to join, as an error: for the machine that asked, and for the administrator who approved it. */
import { type ErrorCode, errorCatalog, MetalbridgeError, remedyOf } from "../../src/api/errors.ts";
import type { HostJoinRequest } from "../../src/api/host-join-request.ts";

/** Undefined unless the request was rejected. */
export function joinRejectionOf({ spec, status }: HostJoinRequest): MetalbridgeError | undefined {
  if (status?.phase !== "Rejected") return undefined;
  const { reason = "", message = "no reason given" } = status;
  const code: ErrorCode = isCode(reason) ? reason : "JoinDeclined";
  return new MetalbridgeError(
    code,
    `host ${spec.hostName} may not join: ${message}`,
    remedyOf(code, { host: spec.hostName }),
  );
}

function isCode(reason: string): reason is ErrorCode {
  return Object.hasOwn(errorCatalog, reason);
}
