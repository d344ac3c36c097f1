/** Converts a zod schema to a structural schema of Kubernetes, which has neither references nor unions. */
import { z } from "zod";

/** The keywords of structural schemas that the CRDs use. */
export interface StructuralSchema {
  type?: string;
  format?: string;
  description?: string;
  default?: unknown;
  enum?: unknown[];
  pattern?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: boolean;
  minLength?: number;
  maxLength?: number;
  minItems?: number;
  maxItems?: number;
  maxProperties?: number;
  properties?: Record<string, StructuralSchema>;
  required?: string[];
  items?: StructuralSchema;
  additionalProperties?: StructuralSchema;
  "x-kubernetes-int-or-string"?: boolean;
  "x-kubernetes-preserve-unknown-fields"?: boolean;
  "x-kubernetes-list-type"?: "map" | "set" | "atomic";
  "x-kubernetes-list-map-keys"?: string[];
  "x-kubernetes-validations"?: CelRule[];
}

export interface CelRule {
  readonly rule: string;
  readonly message: string;
}

type Json = Record<string, unknown>;

const COPIED = [
  "description",
  "default",
  "enum",
  "pattern",
  "minLength",
  "maxLength",
  "minItems",
  "maxItems",
  "maxProperties",
  "required",
  "exclusiveMinimum",
  "exclusiveMaximum",
  "x-kubernetes-int-or-string",
  "x-kubernetes-list-type",
  "x-kubernetes-list-map-keys",
  "x-kubernetes-validations",
] as const;

/** Keywords that are converted separately or ignored. Any other keyword is a bug and throws. */
const KNOWN = new Set<string>([
  ...COPIED,
  "type",
  "format",
  "minimum",
  "maximum",
  "properties",
  "items",
  "additionalProperties",
  "propertyNames",
  "x-refused-fields",
  "anyOf",
  "$schema",
  "id",
]);

/** Structural schema of a zod schema. Fields with defaults are optional, because the schema describes what users write. */
export function toStructuralSchema(schema: z.ZodType): StructuralSchema {
  const json = z.toJSONSchema(schema, {
    io: "input",
    target: "openapi-3.0",
    unrepresentable: "any",
    reused: "inline",
  });
  return convert(json as Json, "");
}

function convert(json: Json, path: string): StructuralSchema {
  const unknown = Object.keys(json).find((word) => !KNOWN.has(word));
  if (unknown !== undefined) throw new Error(`${path || "."}: no structural form for "${unknown}"`);
  if (json["x-kubernetes-int-or-string"] === true) return intOrString(json);
  if (json.anyOf !== undefined) throw new Error(`${path || "."}: a union has no structural form`);
  const words = { ...scalarWords(json), ...nested(json, path), ...copied(json) };
  // The format is enough; zod's long pattern for it would appear in every error message.
  if (words.format === "date-time") delete words.pattern;
  return words;
}

/** The API server checks the pattern of the string form on strings only, so integers pass. */
function intOrString(json: Json): StructuralSchema {
  const alternatives = (json.anyOf ?? []) as Json[];
  const text = alternatives.find((alternative) => alternative.type === "string");
  const whole = alternatives.find((alternative) => alternative.type === "integer");
  const words: StructuralSchema = copied(json);
  if (typeof text?.pattern === "string") words.pattern = text.pattern;
  if (typeof text?.maxLength === "number") words.maxLength = text.maxLength;
  if (whole !== undefined) {
    const { minimum, maximum } = integerBounds(whole);
    Object.assign(words, definedNumbers({ minimum, maximum }));
  }
  return words;
}

function copied(json: Json): StructuralSchema {
  return Object.fromEntries(
    COPIED.filter((word) => json[word] !== undefined).map((word) => [word, json[word]]),
  );
}

function scalarWords(json: Json): StructuralSchema {
  const type = json.type as string | undefined;
  if (type === "integer") return { type, ...integerBounds(json) };
  const isDateTime = json.format === "date-time";
  const bounds = definedNumbers({ minimum: json.minimum, maximum: json.maximum });
  // zod gives enums of numbers the type "number"; all of them hold integers.
  const enumOfIntegers = type === "number" && Array.isArray(json.enum) && json.enum.every(Number.isInteger);
  const words: StructuralSchema = { ...bounds };
  if (type !== undefined) words.type = enumOfIntegers ? "integer" : type;
  if (isDateTime) words.format = "date-time";
  return words;
}

/** zod writes the range of the type as bounds, which Kubernetes expresses with a format. */
function integerBounds(json: Json): StructuralSchema {
  const minimum = json.minimum as number | undefined;
  const maximum = json.maximum as number | undefined;
  const fits32 = maximum !== undefined && maximum <= 2147483647;
  return {
    format: fits32 ? "int32" : "int64",
    ...definedNumbers({
      minimum: minimum === -2147483648 || minimum === Number.MIN_SAFE_INTEGER ? undefined : minimum,
      maximum: maximum === 2147483647 || maximum === Number.MAX_SAFE_INTEGER ? undefined : maximum,
    }),
  };
}

function definedNumbers(words: { minimum: unknown; maximum: unknown }): StructuralSchema {
  return Object.fromEntries(Object.entries(words).filter(([, value]) => typeof value === "number"));
}

/** A field that is always rejected. If it were not declared, the API server would drop it or report an unknown field. */
function refusedField(message: string): StructuralSchema {
  return {
    type: "string",
    maxLength: 63,
    description: `Always refused. ${message}.`,
    "x-kubernetes-validations": [{ rule: "false", message }],
  };
}

function nested(json: Json, path: string): StructuralSchema {
  const words: StructuralSchema = {};
  const properties = json.properties as Record<string, Json> | undefined;
  if (properties !== undefined && Object.keys(properties).length > 0) {
    words.properties = Object.fromEntries(
      Object.entries(properties).map(([name, property]) => [name, convert(property, `${path}.${name}`)]),
    );
  }
  const refused = json["x-refused-fields"] as Record<string, string> | undefined;
  for (const [name, message] of Object.entries(refused ?? {}))
    words.properties = { ...words.properties, [name]: refusedField(message) };
  if (json.items !== undefined) words.items = convert(json.items as Json, `${path}[]`);
  const additional = json.additionalProperties as Json | boolean | undefined;
  if (typeof additional === "object" && Object.keys(additional).length > 0) {
    words.additionalProperties = convert(additional, `${path}.*`);
  } else if (additional === true || typeof additional === "object") {
    words["x-kubernetes-preserve-unknown-fields"] = true;
  }
  return words;
}
