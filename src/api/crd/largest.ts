/** How large an object of a schema can become in the database of the cluster. Pure; for tests. */
import type { StructuralSchema } from "./structural.ts";

/** Go writes `<`, `>`, `&` and control characters as six bytes. */
const BYTES_PER_CHARACTER = 6;
const NUMBER_BYTES = 24;
const TIME_BYTES = 40;
const QUOTES = 2;
const TOTAL = /^self\.map\(one, size\(one(?:\.(\w+))?\)\)\.sum\(\) <= (\d+)$/;

/** Bytes of JSON; infinite where a text or a list has no limit. */
export function largestBytes(schema: StructuralSchema): number {
  if (schema.enum !== undefined) return Math.max(...schema.enum.map((value) => JSON.stringify(value).length));
  switch (schema.type) {
    case "object":
      return objectBytes(schema);
    case "array":
      return arrayBytes(schema);
    case "string":
      return schema.format === "date-time"
        ? TIME_BYTES
        : QUOTES + (schema.maxLength ?? Number.POSITIVE_INFINITY) * characterBytes(schema);
    case "boolean":
      return "false".length;
    case "integer":
    case "number":
      return NUMBER_BYTES;
    default:
      return Number.POSITIVE_INFINITY;
  }
}

function objectBytes({ properties, additionalProperties }: StructuralSchema): number {
  if (properties === undefined || additionalProperties !== undefined) return Number.POSITIVE_INFINITY;
  const fields = Object.entries(properties).map(
    ([name, inner]) => name.length + `"":,`.length + largestBytes(inner),
  );
  return fields.reduce((sum, size) => sum + size, "{}".length);
}

function arrayBytes(schema: StructuralSchema): number {
  const { items = {}, maxItems = Number.POSITIVE_INFINITY } = schema;
  const rules = schema["x-kubernetes-validations"] ?? [];
  const total = rules.map(({ rule }) => TOTAL.exec(rule)).find((match) => match !== null);
  if (total === undefined || total === null) return maxItems * (largestBytes(items) + 1) + "[]".length;
  const [, field, length] = total;
  const text = field === undefined ? items : (items.properties?.[field] ?? {});
  const others = largestBytes(items) - (text.maxLength ?? 0) * characterBytes(text);
  return maxItems * (others + 1) + Number(length) * characterBytes(text) + "[]".length;
}

/** One where the pattern lets nothing through that takes more. */
function characterBytes({ pattern }: StructuralSchema): number {
  const long = ["<", "\u0001", "\u00e9", "\u{1f600}"];
  if (pattern === undefined) return BYTES_PER_CHARACTER;
  const expression = new RegExp(pattern, "u");
  const isOpen = long.some((one) => [one, `a${one}a`, `a/${one}`].some((text) => expression.test(text)));
  return isOpen ? BYTES_PER_CHARACTER : 1;
}
