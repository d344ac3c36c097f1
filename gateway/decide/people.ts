/** The person behind a shared key, from the token by which Open WebUI signs its users. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import type { RequestHeaders } from "../keys/authentication.ts";

const HEADER = "x-openwebui-user-jwt";
const claimsSchema = z.looseObject({
  id: z.string().min(1).max(256).optional(),
  sub: z.string().min(1).max(256).optional(),
  exp: z.number().optional(),
});

/** Undefined without a token, and for a token that `secret` has not signed (HS256) or that has expired: anyone could name a person. */
export function personOf(headers: RequestHeaders, secret: string, nowMs: number): string | undefined {
  const token = headers[HEADER];
  if (typeof token !== "string") return undefined;
  const [header = "", payload = "", signature = "", ...rest] = token.split(".");
  const expected = createHmac("sha256", secret).update(`${header}.${payload}`).digest();
  const given = Buffer.from(signature, "base64url");
  if (rest.length > 0 || given.length !== expected.length || !timingSafeEqual(given, expected))
    return undefined;
  const claims = claimsSchema.safeParse(parse(payload));
  if (!claims.success) return undefined;
  const { id, sub, exp } = claims.data;
  return exp !== undefined && exp * 1_000 <= nowMs ? undefined : (id ?? sub);
}

function parse(payload: string): unknown {
  try {
    return JSON.parse(Buffer.from(payload, "base64url").toString());
  } catch {
    return undefined;
  }
}
