/** Bodies of the console's own calls. */
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
