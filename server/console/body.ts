/** What the console's routes read of a request: bodies of its own calls, and paths that are passed on. */
import type { FastifyRequest } from "fastify";
import type { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { parseJson } from "../../src/util/parse-json.ts";

/** Throws ConsoleRequestInvalid that names the field. */
export function parseBody<T extends z.ZodType>(schema: T, body: unknown): z.output<T> {
  const parsed = schema.safeParse(typeof body === "string" ? parseJson(body) : body);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const field = issue?.path.map(String).join(".") ?? "";
  const message = `${field === "" ? "the request" : field}: ${issue?.message ?? "is invalid"}`;
  throw new MetalbridgeError("ConsoleRequestInvalid", message);
}

/** Path and query of a request below `prefix`. Throws ConsoleRequestInvalid. */
export function pathBelow(prefix: string, { raw: { url = "" } }: FastifyRequest): string {
  // The router also finds a route by a prefix with percent-encoded letters, which is longer.
  if (url.startsWith(`${prefix}/`)) return url.slice(prefix.length);
  throw new MetalbridgeError("ConsoleRequestInvalid", `the path does not begin with ${prefix}/`);
}
