/** The credential and the signed user in the headers of a request, and the result of authentication. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import type { Priority } from "../../src/api/fields/shared.ts";
import type { KeyLimits, UsableService } from "../../src/gateway/key.ts";
import { MAX_CREDENTIAL } from "../../src/http/header-limit.ts";
import { parseJson } from "../../src/util/parse-json.ts";

export interface Authenticated {
  /** Identifies the key or the user in limits, usage and metrics. */
  readonly id: string;
  readonly owner: string;
  /** Immediate for a key; for a Kubernetes user, after a review or from the cache. */
  readonly mayUse: (service: UsableService) => Promise<UseResult>;
  readonly priority: Priority;
  readonly weight: number;
  readonly limits: KeyLimits;
}

/** `unavailable`: the API server did not answer the review. */
export type UseResult = "allowed" | "forbidden" | "unavailable";

export type Authentication =
  | { readonly at: "authenticated"; readonly caller: Authenticated }
  | {
      readonly at: "refused";
      /** `unavailable` is temporary, with status 503: the keys are not read yet, or a token cannot be reviewed. The others have 401. */
      readonly reason: "missing" | "unknown" | "expired" | "disabled" | "revoked" | "foreign" | "unavailable";
      /** For the client: the problem, then what to do. */
      readonly message: string;
    };

/** Headers by lower-case name. */
export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

export interface Authenticator {
  readonly authenticate: (headers: RequestHeaders) => Promise<Authentication>;
}

/** `Authorization: Bearer` (OpenAI's clients) or `x-api-key` (Anthropic's). */
export function readCredential(headers: RequestHeaders): string | undefined {
  const [, bearer] = /^bearer +(\S+)\s*$/i.exec(single(headers.authorization) ?? "") ?? [];
  const credential = bearer ?? single(headers["x-api-key"])?.trim();
  return credential === undefined || credential === "" || credential.length > MAX_CREDENTIAL
    ? undefined
    : credential;
}

/** Undefined for a repeated header: two programs may choose different values. */
export function single(value: RequestHeaders[string]): string | undefined {
  if (typeof value === "string") return value;
  return value?.length === 1 ? value[0] : undefined;
}

/** Open WebUI names its user in it. */
const USER_HEADER = "x-openwebui-user-jwt";
const claimsSchema = z.looseObject({
  id: z.string().min(1).max(256).optional(),
  sub: z.string().min(1).max(256).optional(),
  exp: z.number().optional(),
});

/** The user behind a shared key. Undefined for a token that `secret` did not sign (HS256) or that has expired: anyone could name a user. */
export function userOf(headers: RequestHeaders, secret: string, nowMs: number): string | undefined {
  const token = headers[USER_HEADER];
  if (typeof token !== "string") return undefined;
  const [header = "", payload = "", signature = "", ...rest] = token.split(".");
  const expected = createHmac("sha256", secret).update(`${header}.${payload}`).digest();
  const given = Buffer.from(signature, "base64url");
  if (rest.length > 0 || given.length !== expected.length || !timingSafeEqual(given, expected))
    return undefined;
  const claims = claimsSchema.safeParse(parseJson(Buffer.from(payload, "base64url").toString()));
  if (!claims.success) return undefined;
  const { id, sub, exp } = claims.data;
  return exp !== undefined && exp * 1_000 <= nowMs ? undefined : (id ?? sub);
}
