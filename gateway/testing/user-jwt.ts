/** Signs a user as Open WebUI does. */
import { createHmac } from "node:crypto";

/** The header of a request. */
export function userJwtHeaders(claims: object, secret: string): Record<string, string> {
  const parts = [{ alg: "HS256", typ: "JWT" }, claims].map((part) =>
    Buffer.from(JSON.stringify(part)).toString("base64url"),
  );
  const signature = createHmac("sha256", secret).update(parts.join(".")).digest("base64url");
  return { "x-openwebui-user-jwt": [...parts, signature].join(".") };
}
