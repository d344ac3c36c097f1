/** Maximum size of an object of a schema in the database of the cluster. Pure; for tests. */
import type { StructuralSchema } from "./structural.ts";

/** Go encodes `<`, `>`, `&` and control characters in six bytes. */
const BYTES_PER_CHARACTER = 6;
const NUMBER_BYTES = 24;
const TIME_BYTES = 40;
const QUOTES = 2;
const TOTAL_OF_MAP = /^self\.map\(key, size\(key\) \+ size\(self\[key\]\)\)\.sum\(\) <= (\d+)$/;
const TOTAL_OF_KEYS = /^self\.map\(key, size\(key\)\)\.sum\(\) <= (\d+)$/;
const TOTAL = /^self\.map\(one, size\(one(?:\.(\w+))?\)\)\.sum\(\) <= (\d+)$/;

/** Maximum size as JSON; infinite if a text or a list is not limited. `perCharacter`: bytes of the longest encoding of a character. */
export function largestBytes(schema: StructuralSchema, perCharacter = BYTES_PER_CHARACTER): number {
  const textBytes = (text: StructuralSchema) =>
    QUOTES + (text.maxLength ?? Number.POSITIVE_INFINITY) * characterBytes(text, perCharacter);
  if (schema["x-kubernetes-int-or-string"] === true) return Math.max(NUMBER_BYTES, textBytes(schema));
  if (schema.enum !== undefined) return Math.max(...schema.enum.map((value) => JSON.stringify(value).length));
  switch (schema.type) {
    case "object":
      return objectBytes(schema, perCharacter);
    case "array":
      return arrayBytes(schema, perCharacter);
    case "string":
      return schema.format === "date-time" ? TIME_BYTES : textBytes(schema);
    case "boolean":
      return "false".length;
    case "integer":
    case "number":
      return NUMBER_BYTES;
    default:
      return Number.POSITIVE_INFINITY;
  }
}

function objectBytes(schema: StructuralSchema, perCharacter: number): number {
  const { properties, additionalProperties } = schema;
  if (additionalProperties?.type === "string") return mapBytes(schema, perCharacter);
  if (additionalProperties?.["x-kubernetes-int-or-string"]) return quantitiesBytes(schema, perCharacter);
  if (properties === undefined || additionalProperties !== undefined) return Number.POSITIVE_INFINITY;
  const fields = Object.entries(properties).map(
    ([name, inner]) => name.length + `"":,`.length + largestBytes(inner, perCharacter),
  );
  return fields.reduce((sum, size) => sum + size, "{}".length);
}

function mapBytes(schema: StructuralSchema, perCharacter: number): number {
  const { maxProperties = Number.POSITIVE_INFINITY } = schema;
  const rules = schema["x-kubernetes-validations"] ?? [];
  const total = rules.map(({ rule }) => TOTAL_OF_MAP.exec(rule)?.[1]).find((length) => length !== undefined);
  return maxProperties * `"":"",`.length + Number(total ?? Number.POSITIVE_INFINITY) * perCharacter;
}

function quantitiesBytes(schema: StructuralSchema, perCharacter: number): number {
  const { additionalProperties: value = {}, maxProperties = Number.POSITIVE_INFINITY } = schema;
  const rules = schema["x-kubernetes-validations"] ?? [];
  const keys = rules.map(({ rule }) => TOTAL_OF_KEYS.exec(rule)?.[1]).find((length) => length !== undefined);
  const each = `"":,`.length + largestBytes(value, perCharacter);
  return maxProperties * each + Number(keys ?? Number.POSITIVE_INFINITY) * perCharacter;
}

function arrayBytes(schema: StructuralSchema, perCharacter: number): number {
  const { items = {}, maxItems = Number.POSITIVE_INFINITY } = schema;
  const rules = schema["x-kubernetes-validations"] ?? [];
  const total = rules.map(({ rule }) => TOTAL.exec(rule)).find((match) => match !== null);
  const itemBytes = largestBytes(items, perCharacter);
  if (total === undefined || total === null) return maxItems * (itemBytes + 1) + "[]".length;
  const [, field, length] = total;
  const text = field === undefined ? items : (items.properties?.[field] ?? {});
  const bytesEach = characterBytes(text, perCharacter);
  const others = itemBytes - (text.maxLength ?? 0) * bytesEach;
  return maxItems * (others + 1) + Number(length) * bytesEach + "[]".length;
}

/** Bytes per character: one if the pattern excludes all characters with a longer encoding. */
function characterBytes({ pattern }: StructuralSchema, perCharacter: number): number {
  const long = ["<", "\u0001", "\u00e9", "\u{1f600}"];
  if (pattern === undefined) return perCharacter;
  const expression = new RegExp(pattern, "u");
  const isOpen = long.some((one) => [one, `a${one}a`, `a/${one}`].some((text) => expression.test(text)));
  return isOpen ? perCharacter : 1;
}
