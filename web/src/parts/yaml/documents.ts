/** YAML of API objects, with the line of every field. Pure; loads the library, so pages import it lazily. */
import { type Document, isNode, LineCounter, parseAllDocuments, stringify } from "yaml";

export interface YamlDocument {
  readonly value: Readonly<Record<string, unknown>>;
  /** Line, from 1, of a field as the API server names it, such as `spec.hosts[0]`; of its nearest parent if it is absent. */
  readonly lineOf: (field: string) => number;
}

export interface YamlFault {
  readonly line: number;
  readonly message: string;
}

export type ParsedYaml =
  | { readonly at: "parsed"; readonly documents: readonly YamlDocument[] }
  | { readonly at: "invalid"; readonly faults: readonly YamlFault[] };

export function printYaml(...objects: readonly object[]): string {
  return objects.map((object) => stringify(object, { lineWidth: 0 })).join("---\n");
}

/** Every document must be an object. */
export function parseYaml(text: string): ParsedYaml {
  const counter = new LineCounter();
  const documents = parseAllDocuments(text, { lineCounter: counter });
  if ("empty" in documents) return { at: "invalid", faults: [{ line: 1, message: "The YAML is empty." }] };
  const faults: YamlFault[] = [];
  const parsed: YamlDocument[] = [];
  for (const document of documents) {
    for (const { pos, message } of document.errors)
      faults.push({ line: counter.linePos(pos[0]).line, message: firstLine(message) });
    if (document.errors.length > 0) continue;
    const value = plainValueOf(document);
    if (isFields(value)) parsed.push({ value, lineOf: (field) => lineOf(document, counter, field) });
    else faults.push({ line: lineOf(document, counter, ""), message: "This is not an object." });
  }
  return faults.length > 0 ? { at: "invalid", faults } : { at: "parsed", documents: parsed };
}

/** Undefined for aliases that would fill the memory, which the library refuses. */
function plainValueOf(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    return undefined;
  }
}

/** `spec.hosts[0]` and `metadata.labels[a.b/c]` as keys. */
export function keysOf(field: string): readonly (string | number)[] {
  const keys: (string | number)[] = [];
  for (const [, inBrackets, plain] of field.matchAll(/\[([^\]]*)\]|([^.[\]]+)/g)) {
    if (inBrackets === undefined) keys.push(plain ?? "");
    else keys.push(/^\d+$/.test(inBrackets) ? Number(inBrackets) : inBrackets.replaceAll(/^"|"$/g, ""));
  }
  return keys;
}

function lineOf(document: Document, counter: LineCounter, field: string): number {
  const keys = keysOf(field);
  for (let length = keys.length; length > 0; length -= 1) {
    const start = startOf(document, keys.slice(0, length));
    if (start !== undefined) return counter.linePos(start).line;
  }
  return counter.linePos(document.contents?.range?.[0] ?? 0).line;
}

/** The key's place, which is the line where a block begins; its value is on the next one. */
function startOf(document: Document, keys: readonly (string | number)[]): number | undefined {
  const parent: unknown = keys.length === 1 ? document.contents : document.getIn(keys.slice(0, -1), true);
  const last = keys.at(-1);
  const { items } = (parent ?? {}) as { readonly items?: readonly unknown[] };
  if (items === undefined) return undefined;
  if (typeof last === "number") return rangeOf(items[last]);
  const pair = items.find((item) => nameOf(item) === last) as { readonly key: unknown } | undefined;
  return pair && rangeOf(pair.key);
}

function nameOf(item: unknown): string | undefined {
  const { key } = (item ?? {}) as { readonly key?: { readonly value?: unknown } };
  return key?.value === undefined ? undefined : String(key.value);
}

function rangeOf(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[0] : undefined;
}

function isFields(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function firstLine(text: string): string {
  return text.split("\n")[0]?.replace(/ at line \d+, column \d+:?$/, "") ?? text;
}
