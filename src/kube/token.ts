/** Tokens of a ServiceAccount, as the TokenRequest API issues them. */
import { ACCOUNT_PREFIX } from "../api/access/account.ts";
import type { KubeConnection } from "./client/connect.ts";
import { failureOfBadBody } from "./errors.ts";
import type { ApiResult, ObjectRef } from "./types.ts";

export interface TokenOptions {
  readonly account: Required<ObjectRef>;
  /** At least 600; the API server may issue it for a shorter time. */
  readonly seconds: number;
  /** A Secret in the account's namespace; the token ends with it. */
  readonly boundTo?: { readonly name: string; readonly uid?: string } | undefined;
  /** Who accepts it. Absent: the API server. */
  readonly audiences?: readonly string[];
}

const TIMEOUT_MS = 10_000;

export interface IssuedToken {
  readonly token: string;
  /** As the API server has decided, RFC 3339. */
  readonly expiresAt: string;
}

export async function requestToken(
  connection: KubeConnection,
  options: TokenOptions,
): Promise<ApiResult<string>> {
  const issued = await issueToken(connection, options);
  return issued.ok ? { ok: true, value: issued.value.token } : issued;
}

/** One request, never repeated. */
export async function issueToken(
  connection: KubeConnection,
  { account, seconds, boundTo, audiences }: TokenOptions,
): Promise<ApiResult<IssuedToken>> {
  const { namespace, name } = account;
  const boundObjectRef = boundTo && { apiVersion: "v1", kind: "Secret", ...boundTo };
  const answer = await connection.request({
    method: "POST",
    path: `/api/v1/namespaces/${encodeURIComponent(namespace ?? "")}/serviceaccounts/${encodeURIComponent(name)}/token`,
    body: JSON.stringify({
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: { expirationSeconds: seconds, boundObjectRef, audiences },
    }),
    timeoutMs: TIMEOUT_MS,
  });
  if (!answer.ok) return answer;
  const value = readIssued(answer.value);
  return value === undefined ? { ok: false, error: failureOfBadBody(answer.value) } : { ok: true, value };
}

function readIssued(body: string): IssuedToken | undefined {
  try {
    const { status } = JSON.parse(body) as { status?: { token?: unknown; expirationTimestamp?: unknown } };
    const { token, expirationTimestamp: expiresAt } = status ?? {};
    return typeof token === "string" && typeof expiresAt === "string" ? { token, expiresAt } : undefined;
  } catch {
    return undefined;
  }
}

/** What a token says about itself; nothing of it is verified here. */
export interface TokenClaims {
  /** The host whose account it is; undefined for any other account. */
  readonly host: string | undefined;
  readonly subject: string;
  /** The Secret that it is bound to; undefined for a token that ends with its account only. */
  readonly secret: string | undefined;
  /** Seconds since 1970. */
  readonly issuedAt: number;
  readonly expiresAt: number;
}

/** Undefined for what is no token of a ServiceAccount with an expiry. */
export function readTokenClaims(token: string): TokenClaims | undefined {
  const [, payload = ""] = token.split(".");
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, "base64url").toString("utf8"));
    if (typeof claims !== "object" || claims === null) return undefined;
    const { sub, iat, exp } = claims as Record<string, unknown>;
    if (typeof sub !== "string" || typeof iat !== "number" || typeof exp !== "number") return undefined;
    const host = sub.startsWith(ACCOUNT_PREFIX) ? sub.slice(ACCOUNT_PREFIX.length) : undefined;
    return { host, subject: sub, secret: boundSecretOf(claims), issuedAt: iat, expiresAt: exp };
  } catch {
    return undefined;
  }
}

function boundSecretOf(claims: object): string | undefined {
  const { "kubernetes.io": own } = claims as {
    readonly "kubernetes.io"?: { readonly secret?: { readonly name?: unknown } };
  };
  const name = own?.secret?.name;
  return typeof name === "string" ? name : undefined;
}

/** When a token is renewed, in ms since 1970: after two thirds of its life. */
export function renewAtMs({ issuedAt, expiresAt }: Pick<TokenClaims, "issuedAt" | "expiresAt">): number {
  return (issuedAt + (expiresAt - issuedAt) * (2 / 3)) * 1_000;
}
