import { expect, test } from "vitest";
import { z } from "zod";
import { definitions, rootSchema } from "./definitions.ts";
import { type StructuralSchema, toStructuralSchema } from "./structural.ts";

function visit(
  schema: StructuralSchema,
  path: string,
  see: (path: string, schema: StructuralSchema) => void,
): void {
  see(path, schema);
  for (const [name, property] of Object.entries(schema.properties ?? {}))
    visit(property, `${path}.${name}`, see);
  if (schema.items !== undefined) visit(schema.items, `${path}[]`, see);
  if (schema.additionalProperties !== undefined) visit(schema.additionalProperties, `${path}.*`, see);
}

function everyField(see: (path: string, schema: StructuralSchema) => void): void {
  for (const definition of definitions) visit(rootSchema(definition), definition.kind.kind, see);
}

test("every field of every kind has a description", () => {
  const silent: string[] = [];
  everyField((path, { description }) => {
    const isPart = /(\[\]|\.\*|\.metadata)$/.test(path);
    if (!isPart && (description ?? "").length < 8) silent.push(path);
  });
  expect(silent).toEqual([]);
});

// A client that compares its file with the object, such as kubectl apply or Argo CD, cannot tell a default in a list from a change.
test("no default is inside the items of a list", () => {
  const found: string[] = [];
  everyField((path, { default: value }) => {
    if (path.includes("[]") && value !== undefined) found.push(path);
  });
  expect(found).toEqual([]);
});

test("every rule has a message, and every list of objects says how it is merged where it has keys", () => {
  everyField((path, schema) => {
    for (const rule of schema["x-kubernetes-validations"] ?? []) expect(rule.message, path).toMatch(/\w/);
    for (const key of schema["x-kubernetes-list-map-keys"] ?? [])
      expect(schema.items?.required, path).toContain(key);
  });
});

test("defaults, enums, ranges and formats survive", () => {
  const schema = z.object({
    level: z.enum(["a", "b"]).default("a"),
    count: z.int32().min(1).describe("How many."),
    big: z.int().min(0),
    share: z.number().gt(0).max(1).optional(),
    bits: z.literal([3, 6]).optional(),
    at: z.iso.datetime({ offset: true }).optional(),
    nested: z.object({ on: z.boolean().default(true) }).prefault({}),
    free: z.looseObject({}).optional(),
    map: z.record(z.string(), z.string()).optional(),
  });
  expect(toStructuralSchema(schema)).toEqual({
    type: "object",
    required: ["count", "big"],
    properties: {
      level: { type: "string", enum: ["a", "b"], default: "a" },
      count: { type: "integer", format: "int32", minimum: 1, description: "How many." },
      big: { type: "integer", format: "int64", minimum: 0 },
      share: { type: "number", minimum: 0, exclusiveMinimum: true, maximum: 1 },
      bits: { type: "integer", enum: [3, 6] },
      at: { type: "string", format: "date-time" },
      nested: { type: "object", default: {}, properties: { on: { type: "boolean", default: true } } },
      free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
      map: { type: "object", additionalProperties: { type: "string" } },
    },
  });
});

test("what has no structural form is refused with its path", () => {
  expect(() => toStructuralSchema(z.object({ a: z.union([z.string(), z.boolean()]) }))).toThrow(
    /\.a: a union/,
  );
  expect(() => toStructuralSchema(z.object({ a: z.array(z.string().meta({ odd: 1 })) }))).toThrow(
    /\.a\[\]: .*"odd"/,
  );
});
