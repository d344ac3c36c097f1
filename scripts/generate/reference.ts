/** The field reference of one kind as Markdown: path, type, default, validation, description. */
import type { definitions } from "../../src/api/crd/definitions.ts";
import type { CelRule, StructuralSchema } from "../../src/api/crd/structural.ts";
import { escapeCell, markdownTable } from "./markdown.ts";

type Definition = (typeof definitions)[number];

interface Row {
  readonly path: string;
  readonly required: boolean;
  readonly schema: StructuralSchema;
}

/** One page: spec, status, rules, columns. */
export function renderReference(definition: Definition, root: StructuralSchema): string {
  const { kind, description, shortName } = definition;
  const scope = kind.namespaced ? "namespaced" : "cluster-scoped";
  const rows = rowsOf(root, "", []).filter((row) => /^(spec|status)(\.|$)/.test(row.path));
  const spec = rows.filter((row) => row.path.startsWith("spec."));
  const status = rows.filter((row) => row.path.startsWith("status."));
  return [
    "<!-- Generated from src/api by npm run generate. Do not edit. -->",
    `# ${kind.kind}`,
    "",
    `${description} \`${kind.group}/${kind.version}\`, ${scope}, short name \`${shortName}\`.`,
    "",
    "A field marked * is required where its parent is set. The API server fills in defaults and checks every rule below.",
    "",
    "## spec",
    "",
    ...table(spec),
    "",
    "## Rules",
    "",
    ...rulesOf(root, rows),
    "",
    "## status",
    "",
    ...table(status),
    "",
    "## Columns of kubectl get",
    "",
    ...columnTable(definition),
    "",
  ].join("\n");
}

function rowsOf(schema: StructuralSchema, path: string, rows: Row[]): Row[] {
  for (const [name, property] of Object.entries(schema.properties ?? {})) {
    const child = path === "" ? name : `${path}.${name}`;
    rows.push({ path: child, required: schema.required?.includes(name) ?? false, schema: property });
    rowsOf(property, child, rows);
    if (property.items?.properties !== undefined) rowsOf(property.items, `${child}[]`, rows);
  }
  return rows;
}

function table(rows: readonly Row[]): string[] {
  return markdownTable(
    ["field", "type", "default", "validation", "description"],
    rows.map(({ path, required, schema }) => [
      `\`${path.replace(/^(spec|status)\./, "")}\`${required ? "*" : ""}`,
      typeOf(schema),
      schema.default === undefined ? "" : `\`${JSON.stringify(schema.default)}\``,
      validationOf(schema),
      escapeHtml(schema.description ?? ""),
    ]),
  );
}

function typeOf(schema: StructuralSchema): string {
  if (schema["x-kubernetes-int-or-string"] === true)
    return schema.pattern?.endsWith("%$") === true ? "integer or percentage" : "quantity";
  if (schema.type === "array") return `[]${schema.items === undefined ? "any" : typeOf(schema.items)}`;
  if (schema.additionalProperties !== undefined) return `map of ${typeOf(schema.additionalProperties)}`;
  if (schema.format === "date-time") return "time";
  return schema.format === "int64" ? "int64" : (schema.type ?? "any");
}

function validationOf(schema: StructuralSchema): string {
  const item = schema.items;
  const parts = [
    schema.enum === undefined ? undefined : schema.enum.map((value) => `\`${String(value)}\``).join(", "),
    rangeOf(schema),
    lengthOf(schema.minLength, schema.maxLength, "characters"),
    lengthOf(schema.minItems, schema.maxItems ?? schema.maxProperties, "entries"),
    schema.pattern === undefined || schema["x-kubernetes-int-or-string"]
      ? undefined
      : `\`${escapeHtml(schema.pattern)}\``,
    item?.type === "string" && validationOf(item) !== "" ? `each: ${validationOf(item)}` : undefined,
    schema["x-kubernetes-list-type"] === "map"
      ? `one entry per ${(schema["x-kubernetes-list-map-keys"] ?? []).join(", ")}`
      : undefined,
  ];
  return parts.filter((part) => part !== undefined).join("; ");
}

function rangeOf({ minimum, maximum, exclusiveMinimum }: StructuralSchema): string | undefined {
  if (minimum === undefined && maximum === undefined) return undefined;
  const from = minimum === undefined ? "" : `${exclusiveMinimum === true ? "above " : ""}${minimum}`;
  return maximum === undefined
    ? `${exclusiveMinimum === true ? "" : "at least "}${from}`
    : `${from}–${maximum}`;
}

function lengthOf(min: number | undefined, max: number | undefined, unit: string): string | undefined {
  if (max === undefined) return undefined;
  return min === undefined || min === 0 ? `≤ ${max} ${unit}` : `${min}–${max} ${unit}`;
}

function rulesOf(root: StructuralSchema, rows: readonly Row[]): string[] {
  const rules: CelRule[] = [
    ...(root["x-kubernetes-validations"] ?? []),
    ...rows.flatMap(({ schema }) => [
      ...(schema["x-kubernetes-validations"] ?? []),
      ...(schema.items?.["x-kubernetes-validations"] ?? []),
    ]),
  ];
  const messages = [...new Set(rules.map((rule) => rule.message))];
  return messages.length === 0 ? ["None beyond the table."] : messages.map((message) => `- ${message}`);
}

function columnTable({ columns }: Definition): string[] {
  return markdownTable(
    ["column", "shows", "when"],
    columns.map(({ name, description, priority }) => [
      name,
      escapeHtml(description),
      priority === undefined ? "always" : "`-o wide`",
    ]),
  );
}

function escapeHtml(text: string): string {
  return escapeCell(text).replaceAll("<", "&lt;");
}
