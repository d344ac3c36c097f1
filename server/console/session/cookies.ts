/** The console's cookies: read, set and removed, with the attributes that keep them from scripts and other sites. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { calledNameOf } from "./guard.ts";

export interface CookieOptions {
  readonly maxAgeSeconds: number;
  /** Lax is for a cookie that must arrive with a link from another site. */
  readonly sameSite?: "Strict" | "Lax";
}

/** Browsers drop a cookie whose name and value are longer. */
const MAX_COOKIE = 4_000;

export function readCookie(request: FastifyRequest, name: string): string | undefined {
  const wanted = nameFor(request, name);
  for (const pair of (request.headers.cookie ?? "").split(";")) {
    const at = pair.indexOf("=");
    if (pair.slice(0, at).trim() === wanted) return pair.slice(at + 1).trim();
  }
  return undefined;
}

/** False if the value is too long. */
export function setCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  name: string,
  value: string,
  { maxAgeSeconds, sameSite = "Strict" }: CookieOptions,
): boolean {
  const fullName = nameFor(request, name);
  if (fullName.length + value.length > MAX_COOKIE) return false;
  const secure = isSecure(request) ? "; Secure" : "";
  const attributes = `Path=/; Max-Age=${Math.floor(maxAgeSeconds)}; HttpOnly; SameSite=${sameSite}${secure}`;
  // On the raw response, because some routes write their own head.
  reply.raw.appendHeader("set-cookie", `${fullName}=${value}; ${attributes}`);
  return true;
}

export function removeCookie(request: FastifyRequest, reply: FastifyReply, name: string): void {
  setCookie(request, reply, name, "", { maxAgeSeconds: 0 });
}

/** True if the browser's connection is encrypted, here or by a proxy in front. */
export function isSecure({ protocol, headers }: FastifyRequest): boolean {
  // With several proxies, the first is the one that the browser calls.
  const [first = ""] = String(headers["x-forwarded-proto"] ?? "").split(",");
  return protocol === "https" || first.trim().toLowerCase() === "https";
}

/**
 * Cookies know no ports: two consoles on one machine must not overwrite each other's. Browsers take a name with `__Host-`
 * only from this host, over TLS: no other host of the domain can set it.
 */
function nameFor(request: FastifyRequest, name: string): string {
  const { isLoopback, port } = calledNameOf(request);
  const ofPort = isLoopback && port !== "" ? `${name}-${port}` : name;
  return isSecure(request) ? `__Host-${ofPort}` : ofPort;
}
