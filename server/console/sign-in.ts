/** Sign-in with a token or a one-time code, the current session, and sign-out. */
import { randomBytes } from "node:crypto";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { CONSOLE_PATH, type Session } from "../../src/console/protocol.ts";
import { MAX_CREDENTIAL } from "../../src/http/header-limit.ts";
import { explainFailure } from "../../src/kube/errors.ts";
import { identifySelf } from "../../src/kube/review/self-reviews.ts";
import { isoSeconds } from "../../src/util/iso-seconds.ts";
import type { Clock } from "../../src/util/ports.ts";
import { parseBody } from "./body.ts";
import type { Oidc } from "./oidc.ts";
import type { Readers } from "./reader.ts";
import {
  expiryOfToken,
  localSession,
  type SessionData,
  type Sessions,
  tokenSession,
} from "./session/session.ts";

/** Codes that start a session with the server's own kubeconfig. Each works once; the next one is then valid. */
export interface OneTimeCodes {
  readonly current: () => string;
  readonly redeem: (code: string) => boolean;
}

export interface SignInOptions {
  readonly sessions: Sessions;
  readonly readers: Readers;
  readonly clock: Clock;
  readonly codes: OneTimeCodes | undefined;
  readonly oidc: Pick<Oidc, "end"> | undefined;
  /** Parts of the answer that are the same for all readers. */
  readonly facts: Pick<Session, "isReadOnly" | "hasGateway" | "gatewayUrl" | "version">;
  readonly sessionOf: (request: FastifyRequest) => SessionData;
}

const CODE_BYTES = 24;
/** Each guess costs a connection to the API server. */
const MAX_PENDING = 16;

const bodySchema = z.union([
  z.strictObject({ token: z.string().trim().min(1).max(MAX_CREDENTIAL) }),
  z.strictObject({ code: z.string().min(1).max(200) }),
]);

/** Removes the key if it is empty. */
const keySchema = z.strictObject({ key: z.string().trim().max(1_000) });

/** `onRedeemed` gets the next code. */
export function createCodes(onRedeemed: (next: string) => void): OneTimeCodes {
  const generate = () => randomBytes(CODE_BYTES).toString("base64url");
  let current = generate();
  return {
    current: () => current,
    redeem: (code) => {
      if (code !== current) return false;
      current = generate();
      onRedeemed(current);
      return true;
    },
  };
}

export function mountSignIn(scope: FastifyInstance, options: SignInOptions): void {
  const { sessions, sessionOf, oidc } = options;
  const path = `${CONSOLE_PATH}/session`;
  let pending = 0;
  scope.get(path, { config: { calledBy: "call" } }, async (request) => {
    const session = sessionOf(request);
    await refuseRevoked(options, session);
    return await describeSession(options, session);
  });
  scope.post(path, { config: { calledBy: "sign-in" } }, async (request, reply) => {
    if (pending >= MAX_PENDING)
      throw new MetalbridgeError("ApiThrottled", "too many people are signing in at the same time");
    pending += 1;
    try {
      const session = await start(options, parseBody(bodySchema, request.body));
      // The same reader keeps the key of the gateway.
      const before = sessions.read(request);
      const gatewayKey = before?.user === session.user ? before.gatewayKey : undefined;
      sessions.write(request, reply, { ...session, gatewayKey });
      // An earlier sign-in may be of another reader, whose session it would renew.
      oidc?.end(request, reply);
      return await describeSession(options, session);
    } finally {
      pending -= 1;
    }
  });
  scope.delete(path, { config: { calledBy: "sign-in" } }, async (request, reply) => {
    sessions.end(request, reply);
    oidc?.end(request, reply);
    return reply.code(204).send();
  });
  scope.post(`${CONSOLE_PATH}/gateway-key`, { config: { calledBy: "call" } }, async (request, reply) => {
    const { key } = parseBody(keySchema, request.body);
    requireVisible("key", key);
    sessions.write(request, reply, { ...sessionOf(request), gatewayKey: key === "" ? undefined : key });
    return reply.code(204).send();
  });
}

/** A header carries nothing else. */
function requireVisible(what: "key" | "token", value: string): void {
  if (/^[\x21-\x7e]*$/.test(value)) return;
  const message = `the ${what} has a space, a line break, or a character that is not ASCII`;
  throw new MetalbridgeError("ConsoleRequestInvalid", message, {
    summary: `copy the ${what} again, without anything before or after it`,
  });
}

async function start(
  { readers, clock, codes }: SignInOptions,
  body: z.output<typeof bodySchema>,
): Promise<SessionData> {
  if ("token" in body) {
    requireVisible("token", body.token);
    return tokenSession(body.token, await readers.identify(body.token), clock.nowMs());
  }
  if (codes?.redeem(body.code) !== true)
    throw new MetalbridgeError("ConsoleSignInRefused", "the one-time code is not valid, or was already used");
  const { connection } = await readers.of({});
  const identity = await identifySelf(connection);
  return localSession(identity.ok ? (identity.value.username ?? "") : "", clock.nowMs());
}

/** An API server that does not answer ends no session. */
async function refuseRevoked({ readers }: SignInOptions, session: SessionData): Promise<void> {
  const { connection } = await readers.of(session);
  const identity = await identifySelf(connection);
  if (!identity.ok && identity.error.kind === "unauthorized") throw explainFailure(identity.error);
}

async function describeSession({ facts, readers }: SignInOptions, session: SessionData): Promise<Session> {
  const { user, token } = session;
  const { namespace } = await readers.of(session);
  const expiresMs = token === undefined ? undefined : expiryOfToken(token);
  const expiresAt = expiresMs === undefined ? undefined : isoSeconds(expiresMs);
  return { ...facts, user, namespace, isLocal: token === undefined, expiresAt };
}
