/** Sessions: the reader's token in a sealed cookie, which scripts cannot read and other servers cannot open. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import { MetalbridgeError } from "../../../src/api/errors.ts";
import { decodeToken } from "../../../src/kube/token.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { readCookie, removeCookie, setCookie } from "./cookies.ts";
import type { Seal } from "./seal.ts";

const sessionSchema = z.object({
  /** Absent: the credentials of the server's own kubeconfig (`metalbridge console`). */
  token: z.string().optional(),
  user: z.string(),
  /** Sent to the gateway in place of the token. */
  gatewayKey: z.string().optional(),
  /** Expiry of the session; that of the token if it states one. */
  untilMs: z.number(),
});

export type SessionData = Readonly<z.output<typeof sessionSchema>>;

export interface Sessions {
  /** Undefined without a valid session. */
  readonly read: (request: FastifyRequest) => SessionData | undefined;
  /** Throws ConsoleTokenTooLong. */
  readonly write: (request: FastifyRequest, reply: FastifyReply, data: SessionData) => void;
  readonly end: (request: FastifyRequest, reply: FastifyReply) => void;
}

const COOKIE = "metalbridge";
const HOUR_MS = 3_600_000;
/** Session of a token that states no expiry, and the maximum of any other. */
const TOKEN_MS = 12 * HOUR_MS;
const LOCAL_MS = 30 * 24 * HOUR_MS;

/** `isLocal`: sessions without a token are accepted. */
export function createSessions(
  seal: Seal,
  { clock, isLocal }: { readonly clock: Clock; readonly isLocal: boolean },
): Sessions {
  return {
    read: (request) => {
      const text = readCookie(request, COOKIE);
      const parsed = sessionSchema.safeParse(text === undefined ? undefined : seal.open(COOKIE, text));
      if (!parsed.success || clock.nowMs() >= parsed.data.untilMs) return undefined;
      return parsed.data.token !== undefined || isLocal ? parsed.data : undefined;
    },
    write: (request, reply, data) => {
      const maxAgeSeconds = (data.untilMs - clock.nowMs()) / 1_000;
      if (!setCookie(request, reply, COOKIE, seal.seal(COOKIE, data), { maxAgeSeconds }))
        throw new MetalbridgeError("ConsoleTokenTooLong", "the token is too long for a cookie");
    },
    end: (request, reply) => removeCookie(request, reply, COOKIE),
  };
}

export function tokenSession(token: string, user: string, nowMs: number): SessionData {
  return { token, user, untilMs: Math.min(expiryOfToken(token) ?? Infinity, nowMs + TOKEN_MS) };
}

export function localSession(user: string, nowMs: number): SessionData {
  return { user, untilMs: nowMs + LOCAL_MS };
}

/** Time in ms since 1970 that a JSON Web Token states. The API server alone decides. */
export function expiryOfToken(token: string): number | undefined {
  const seconds = decodeToken(token)?.exp;
  return typeof seconds === "number" ? seconds * 1_000 : undefined;
}
