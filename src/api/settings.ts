/** Settings of a program, which are validated once at its start. */
import type { z } from "zod";
import { type ErrorCode, MetalbridgeError } from "./errors.ts";

/** Throws MetalbridgeError of this code with the name of the invalid key. */
export function parseSettings<Schema extends z.ZodType>(
  schema: Schema,
  input: unknown,
  code: ErrorCode,
): z.output<Schema> {
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const key = issue?.code === "unrecognized_keys" ? issue.keys.join(", ") : (issue?.path.join(".") ?? "");
  throw new MetalbridgeError(code, `${key}: ${issue?.message ?? "is invalid"}`);
}
