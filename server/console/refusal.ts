/** Answers of the console that are not the one asked for: a 401 with the way to sign in, and coded refusals. */
import type { FastifyReply } from "fastify";
import { type ErrorCode, MetalbridgeError } from "../../src/api/errors.ts";
import { deniedRight, missingRight } from "../../src/console/missing-right.ts";
import type { ApiRefusal, SignIn } from "../../src/console/protocol.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import type { ApiResult } from "../../src/kube/types.ts";
import type { Log } from "../../src/util/ports.ts";

const STATUS: Partial<Record<ErrorCode, number>> = {
  ConsoleSignInRefused: 401,
  ConsoleTokenTooLong: 400,
  ConsoleRequestRefused: 403,
  ConsoleRequestInvalid: 400,
  ConsoleReadOnly: 403,
  ConsoleKindNotServed: 403,
  ConsoleStreamNotFound: 404,
  ConsoleStreamsFull: 503,
  ConsoleGatewayMissing: 404,
  ConsoleGatewayUnreachable: 502,
  GatewayKeyExists: 409,
  GatewayKeyNotFound: 404,
  GatewayKeyInvalid: 422,
  ApiForbidden: 403,
  ApiObjectNotFound: 404,
  ApiObjectConflict: 409,
  ApiObjectInvalid: 422,
  ApiThrottled: 429,
  ApiUnreachable: 503,
  ApiUnavailable: 503,
  RevisionNotFound: 404,
  RevisionNotRestorable: 422,
  ReplicaNotFound: 404,
  LogOnAnotherHost: 409,
  RemoteAccessOff: 409,
  RemoteAccessForbidden: 403,
  RemoteRequestRefused: 502,
  RemoteHostUnreachable: 502,
  RemoteTunnelMissing: 503,
};
const OTHER_STATUS = 502;

const SIGN_IN: Readonly<Record<SignIn["by"], string>> = {
  token: "Sign in with a token of the cluster.",
  oidc: "Sign in with your organization's account.",
  code: "Open the newest address that `metalbridge` has printed in its terminal; each works once.",
};

/** For what a policy of the cluster forbids, whatever the reader's rights. */
const ASK = "Ask an administrator of the cluster: the message names the rule that forbids it.";

/** The command of the remedy is in backticks, and pages show it in a box. */
export function refusalOf({ code, message, remedy: { summary, command } }: MetalbridgeError): ApiRefusal {
  return { code, message, remedy: command === undefined ? summary : `${summary}: \`${command}\`` };
}

export function refuse(reply: FastifyReply, error: MetalbridgeError): FastifyReply {
  return reply.code(STATUS[error.code] ?? OTHER_STATUS).send(refusalOf(error));
}

export function askToSignIn(reply: FastifyReply, by: SignIn["by"]): FastifyReply {
  const body: SignIn = { code: "SignInNeeded", message: SIGN_IN[by], by };
  return reply.code(401).send(body);
}

/** Answers a request whose route has thrown. */
export function refuseThrown(
  reply: FastifyReply,
  error: Error & { readonly statusCode?: number },
  { by, log }: { readonly by: SignIn["by"]; readonly log: Log },
): FastifyReply {
  if (error instanceof MetalbridgeError)
    return error.code === "ApiUnauthorized" ? askToSignIn(reply, by) : refuse(reply, error);
  const { statusCode = 500 } = error;
  if (statusCode >= 500) log.error({ err: error }, "a request of the console failed");
  const body: ApiRefusal = {
    code: statusCode >= 500 ? "InternalError" : "ConsoleRequestInvalid",
    message: statusCode >= 500 ? "internal error" : error.message,
  };
  return reply.code(statusCode).send(body);
}

/** Throws the failure as MetalbridgeError. */
export function unwrapAnswer<T>(answer: ApiResult<T>): T {
  if (answer.ok) return answer.value;
  const denied = deniedRight(answer.error.message);
  if (denied === undefined && answer.error.kind === "forbidden")
    throw new MetalbridgeError("ApiForbidden", answer.error.message, { summary: ASK });
  if (denied === undefined) throw explainFailure(answer.error);
  const { message, remedy } = missingRight(denied);
  throw new MetalbridgeError("ApiForbidden", message, { summary: remedy });
}
