/** Truncates reported values to the limits of a schema: a single text that is too long must not invalidate the status. */
import type { z } from "zod";
import { truncate } from "../../util/text.ts";
import { type StructuralSchema, toStructuralSchema } from "./structural.ts";

const CONTROLS = /[\p{Cc}\p{Cf}]+/gu;

/** Truncated strings end with an ellipsis, and lists lose their last items. Numbers and names are not changed. */
export function createTrimmer<T>(schema: z.ZodType<T>): (value: T) => T {
  let structural: StructuralSchema | undefined;
  return (value) => {
    structural ??= toStructuralSchema(schema);
    return cut(value, structural) as T;
  };
}

function cut(value: unknown, schema: StructuralSchema): unknown {
  if (typeof value === "string") return cutText(value, schema);
  if (Array.isArray(value)) {
    const { items = {}, maxItems = value.length } = schema;
    return value.slice(0, maxItems).map((item) => cut(item, items));
  }
  if (typeof value !== "object" || value === null) return value;
  const { properties = {} } = schema;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, cut(inner, properties[key] ?? {})]),
  );
}

function cutText(text: string, { pattern, maxLength = Number.POSITIVE_INFINITY }: StructuralSchema): string {
  const shown = pattern?.includes("\\p{Cc}") === true ? text.replace(CONTROLS, " ") : text;
  return truncate(shown, maxLength);
}
