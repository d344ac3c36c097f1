/** Sign-in with an identity provider (OpenID Connect): code flow with PKCE; the ID token is the reader's token for the API server. */
import { createHash } from "node:crypto";
import { getCACertificates, setDefaultCACertificates } from "node:tls";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import {
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type Configuration,
  calculatePKCECodeChallenge,
  discovery,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
  refreshTokenGrant,
} from "openid-client";
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { CONSOLE_PATH } from "../../src/console/protocol.ts";
import { errorMessage } from "../../src/util/error-message.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { Readers } from "./reader.ts";
import { isSecure, readCookie, removeCookie, setCookie } from "./session/cookies.ts";
import type { Seal } from "./session/seal.ts";
import { type SessionData, type Sessions, tokenSession } from "./session/session.ts";

export interface OidcSettings {
  readonly issuer: string;
  readonly clientId: string;
  /** Absent: a public client. */
  readonly clientSecret?: string | undefined;
  /** Separated by spaces; includes openid. */
  readonly scopes: string;
}

export interface OidcOptions extends OidcSettings {
  readonly seal: Seal;
  readonly sessions: Sessions;
  readonly readers: Readers;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Oidc {
  readonly mount: (scope: FastifyInstance) => void;
  /** The session with a new token if the current one is missing or expires soon and can be renewed. Never rejects. */
  readonly renew: (
    request: FastifyRequest,
    reply: FastifyReply,
    session: SessionData | undefined,
  ) => Promise<SessionData | undefined>;
  readonly end: (request: FastifyRequest, reply: FastifyReply) => void;
}

const FLOW_COOKIE = "metalbridge-sign-in";
const REFRESH_COOKIE = "metalbridge-refresh";
const FLOW_SECONDS = 600;
const MAX_BACK = 1_000;
/** How long a browser keeps the refresh token; the provider may end it earlier. */
const REFRESH_SECONDS = 12 * 3_600;
/** A token that expires within this is renewed. */
const RENEW_BEFORE_MS = 60_000;
/** Requests that were sent with the previous refresh token get the same result. */
const RENEWED_MS = 30_000;

const flowSchema = z.object({
  verifier: z.string(),
  state: z.string(),
  nonce: z.string(),
  /** Path of the page that asked for the sign-in. */
  back: z.string(),
});
const refreshSchema = z.object({
  token: z.string(),
  /** A copy of the cookie ends with it. */
  untilMs: z.number(),
});

interface Tokens {
  readonly idToken: string;
  readonly refreshToken: string | undefined;
}

export function createOidc(options: OidcOptions): Oidc {
  const provider = discoverOnce(options);
  const renewals = new Map<string, Promise<Tokens | undefined>>();
  const refresh = (token: string): Promise<Tokens | undefined> => {
    const key = createHash("sha256").update(token).digest("base64url");
    const pending = renewals.get(key) ?? requestRefresh(options, provider, token);
    renewals.set(key, pending);
    options.clock.after(RENEWED_MS, () => renewals.delete(key));
    return pending;
  };
  return {
    mount: (scope) => mountFlow(scope, options, provider),
    renew: async (request, reply, session) => {
      const { clock, sessions, seal } = options;
      if (session !== undefined && session.untilMs - clock.nowMs() > RENEW_BEFORE_MS) return session;
      const sealed = readCookie(request, REFRESH_COOKIE);
      const known = refreshSchema.safeParse(
        sealed === undefined ? undefined : seal.open(REFRESH_COOKIE, sealed),
      );
      const isOpen = known.success && clock.nowMs() < known.data.untilMs;
      const tokens = isOpen ? await refresh(known.data.token) : undefined;
      if (tokens === undefined) return session;
      try {
        const user = await identifyAgain(options, tokens.idToken, session);
        const gatewayKey = session?.user === user ? session.gatewayKey : undefined;
        const renewed = { ...tokenSession(tokens.idToken, user, clock.nowMs()), gatewayKey };
        sessions.write(request, reply, renewed);
        keepRefreshToken(options, request, reply, tokens);
        return renewed;
      } catch (error) {
        options.log.warn({ err: error }, "a session could not be renewed");
        return session;
      }
    },
    end: (request, reply) => removeCookie(request, reply, REFRESH_COOKIE),
  };
}

/** The name of the token before, while the API server does not answer: the provider has replaced that token already. */
async function identifyAgain(
  { readers }: OidcOptions,
  token: string,
  session: SessionData | undefined,
): Promise<string> {
  try {
    return await readers.identify(token);
  } catch (error) {
    const isRefused = error instanceof MetalbridgeError && error.code === "ConsoleSignInRefused";
    if (session === undefined || isRefused) throw error;
    return session.user;
  }
}

/** Trusts one more authority, in this process: the one that has signed the certificate of the identity provider. */
export function trustAuthority(pem: string): void {
  setDefaultCACertificates([...getCACertificates("default"), pem]);
}

/** The provider is asked with the first sign-in, so that the server starts without it, and again after a failure. */
function discoverOnce({ issuer, clientId, clientSecret }: OidcSettings): () => Promise<Configuration> {
  let found: Promise<Configuration> | undefined;
  return () => {
    found ??= discovery(new URL(issuer), clientId, clientSecret).catch((error: unknown) => {
      found = undefined;
      throw failed(error);
    });
    return found;
  };
}

function mountFlow(
  scope: FastifyInstance,
  options: OidcOptions,
  provider: () => Promise<Configuration>,
): void {
  const { seal, sessions, readers, clock } = options;
  const config = { calledBy: "page" } as const;
  /** A page that the address bar shows must not be JSON. */
  const orFailed = async (reply: FastifyReply, target: () => Promise<string>): Promise<FastifyReply> => {
    try {
      return reply.redirect(await target());
    } catch (error) {
      options.log.warn({ err: error }, "a sign-in failed");
      const code = error instanceof MetalbridgeError ? error.code : "InternalError";
      return reply.redirect(`${CONSOLE_PATH}/#sign-in-failed=${code}`);
    }
  };
  scope.get(`${CONSOLE_PATH}/sign-in`, { config }, (request, reply) =>
    orFailed(reply, async () => {
      const verifier = randomPKCECodeVerifier();
      const flow = { verifier, state: randomState(), nonce: randomNonce(), back: backPath(request) };
      const url = buildAuthorizationUrl(await provider(), {
        redirect_uri: callbackOf(request),
        scope: options.scopes,
        code_challenge: await calculatePKCECodeChallenge(verifier),
        code_challenge_method: "S256",
        state: flow.state,
        nonce: flow.nonce,
      });
      // Lax: the provider's redirect comes from another site.
      setCookie(request, reply, FLOW_COOKIE, seal.seal(FLOW_COOKIE, flow), {
        maxAgeSeconds: FLOW_SECONDS,
        sameSite: "Lax",
      });
      return url.href;
    }),
  );
  scope.get(`${CONSOLE_PATH}/signed-in`, { config }, (request, reply) =>
    orFailed(reply, async () => {
      const flow = flowSchema.safeParse(seal.open(FLOW_COOKIE, readCookie(request, FLOW_COOKIE) ?? ""));
      removeCookie(request, reply, FLOW_COOKIE);
      if (!flow.success)
        throw failed(new Error("the sign-in was started in another browser, or too long ago"));
      const tokens = await requestTokens(await provider(), request, flow.data);
      const user = await readers.identify(tokens.idToken);
      sessions.write(request, reply, tokenSession(tokens.idToken, user, clock.nowMs()));
      keepRefreshToken(options, request, reply, tokens);
      return flow.data.back;
    }),
  );
}

async function requestTokens(
  config: Configuration,
  request: FastifyRequest,
  { verifier, state, nonce }: z.output<typeof flowSchema>,
): Promise<Tokens> {
  const url = new URL(callbackOf(request));
  url.search = new URL(request.raw.url ?? "", url).search;
  const answer = await authorizationCodeGrant(config, url, {
    pkceCodeVerifier: verifier,
    expectedState: state,
    expectedNonce: nonce,
    idTokenExpected: true,
  }).catch((error: unknown) => {
    throw failed(error);
  });
  return { idToken: answer.id_token ?? "", refreshToken: answer.refresh_token };
}

/** Undefined if the provider does not renew the token. */
async function requestRefresh(
  { log }: OidcOptions,
  provider: () => Promise<Configuration>,
  token: string,
): Promise<Tokens | undefined> {
  try {
    const answer = await refreshTokenGrant(await provider(), token);
    const { id_token: idToken, refresh_token: refreshToken = token } = answer;
    return idToken === undefined ? undefined : { idToken, refreshToken };
  } catch (error) {
    log.info({ err: error }, "the identity provider did not renew a token");
    return undefined;
  }
}

/** Without it, or if it is too long for a cookie, the reader signs in again when the ID token expires. */
function keepRefreshToken(
  { seal, clock }: OidcOptions,
  request: FastifyRequest,
  reply: FastifyReply,
  { refreshToken: token }: Tokens,
): void {
  if (token === undefined) return;
  const untilMs = clock.nowMs() + REFRESH_SECONDS * 1_000;
  setCookie(request, reply, REFRESH_COOKIE, seal.seal(REFRESH_COOKIE, { token, untilMs }), {
    maxAgeSeconds: REFRESH_SECONDS,
  });
}

/** The redirect URI, which the provider must know. */
function callbackOf(request: FastifyRequest): string {
  return `${isSecure(request) ? "https" : "http"}://${request.headers.host ?? ""}${CONSOLE_PATH}/signed-in`;
}

/** `?back=` only leads to pages of the console. */
function backPath({ query }: FastifyRequest): string {
  const { back } = query as { readonly back?: unknown };
  const base = "http://console";
  const url = typeof back === "string" && back.length < MAX_BACK ? URL.parse(back, base) : null;
  const isOwn = url?.origin === base && url.pathname.startsWith(`${CONSOLE_PATH}/`);
  return isOwn && !url.pathname.includes("//") ? url.pathname + url.search : `${CONSOLE_PATH}/`;
}

function failed(cause: unknown): MetalbridgeError {
  const message = `the identity provider: ${errorMessage(cause)}`;
  const remedy = {
    summary: `open ${CONSOLE_PATH}/ and sign in again; an administrator checks the settings oidc…`,
  };
  return new MetalbridgeError("ConsoleSignInRefused", message, remedy, { cause });
}
