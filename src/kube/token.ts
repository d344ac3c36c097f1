/** ServiceAccount tokens from the TokenRequest API. */
import { ACCOUNT_PREFIX } from "../api/access/account.ts";
import { parseJson } from "../util/parse-json.ts";
import type { KubeConnection } from "./client/connect.ts";
import { failureOfBadBody } from "./errors.ts";
import type { ApiResult, ObjectRef } from "./types.ts";

export interface TokenOptions {
  readonly account: Required<ObjectRef>;
  /** Requested lifetime, at least 600. The API server may grant a shorter one. */
  readonly seconds: number;
  /** A Secret in the account's namespace. Deleting it revokes the token. */
  readonly boundTo?: { readonly name: string; readonly uid?: string } | undefined;
  /** Audiences that accept the token. Defaults to the API server. */
  readonly audiences?: readonly string[];
}

const TIMEOUT_MS = 10_000;

export interface IssuedToken {
  readonly token: string;
  /** Expiry granted by the API server, in RFC 3339 format. */
  readonly expiresAt: string;
}

export async function requestToken(
  connection: KubeConnection,
  options: TokenOptions,
): Promise<ApiResult<string>> {
  const issued = await issueToken(connection, options);
  return issued.ok ? { ok: true, value: issued.value.token } : issued;
}

/** Sends a single request, which is never repeated. */
export async function issueToken(
  connection: KubeConnection,
  { account, seconds, boundTo, audiences }: TokenOptions,
): Promise<ApiResult<IssuedToken>> {
  const { namespace, name } = account;
  const boundObjectRef = boundTo && { apiVersion: "v1", kind: "Secret", ...boundTo };
  const response = await connection.request({
    method: "POST",
    path: `/api/v1/namespaces/${encodeURIComponent(namespace ?? "")}/serviceaccounts/${encodeURIComponent(name)}/token`,
    body: JSON.stringify({
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: seconds, boundObjectRef, audiences },
    }),
    timeoutMs: TIMEOUT_MS,
  });
  if (!response.ok) return response;
  const value = readIssued(response.value);
  return value === undefined ? { ok: false, error: failureOfBadBody(response.value) } : { ok: true, value };
}

function readIssued(body: string): IssuedToken | undefined {
  const parsed = parseJson(body) as { status?: { token?: unknown; expirationTimestamp?: unknown } } | null;
  const { token, expirationTimestamp: expiresAt } = parsed?.status ?? {};
  return typeof token === "string" && typeof expiresAt === "string" ? { token, expiresAt } : undefined;
}

/** Claims of a token, which are not verified. */
export interface TokenClaims {
  /** Host that the account belongs to; undefined for any other account. */
  readonly host: string | undefined;
  readonly subject: string;
  /** Secret that the token is bound to, if any. */
  readonly secret: string | undefined;
  /** Time in seconds since 1970. */
  readonly issuedAt: number;
  readonly expiresAt: number;
}

interface RawClaims {
  readonly sub?: unknown;
  readonly iat?: unknown;
  readonly exp?: unknown;
  readonly "kubernetes.io"?: { readonly secret?: { readonly name?: unknown } } | null;
}

/** The claims of a JSON Web Token, which are not verified. Undefined for any other text. */
export function decodeToken(token: string): RawClaims | undefined {
  const [, payload = ""] = token.split(".");
  const claims = parseJson(Buffer.from(payload, "base64url").toString("utf8"));
  return typeof claims === "object" && claims !== null ? claims : undefined;
}

/** Undefined if the text is no ServiceAccount token with an expiry. */
export function readTokenClaims(token: string): TokenClaims | undefined {
  const { sub, iat, exp, "kubernetes.io": bound } = decodeToken(token) ?? {};
  if (typeof sub !== "string" || typeof iat !== "number" || typeof exp !== "number") return undefined;
  const host = sub.startsWith(ACCOUNT_PREFIX) ? sub.slice(ACCOUNT_PREFIX.length) : undefined;
  const name = bound?.secret?.name;
  const secret = typeof name === "string" ? name : undefined;
  return { host, subject: sub, secret, issuedAt: iat, expiresAt: exp };
}

/** Time in ms since 1970 at which a token must be renewed: after two thirds of its lifetime. */
export function renewAtMs({ issuedAt, expiresAt }: Pick<TokenClaims, "issuedAt" | "expiresAt">): number {
  return (issuedAt + (expiresAt - issuedAt) * (2 / 3)) * 1_000;
}
