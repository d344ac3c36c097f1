/** The extender protocol of kube-scheduler: its requests as it sends them, and the responses that it reads. Pure. */
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { errorMessage } from "../../src/util/error-message.ts";

/** The highest score of a node. */
export const MAX_SCORE = 10;

const containersSchema = z
  .array(
    z.object({
      image: z.string().optional(),
      resources: z
        .object({
          requests: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
          limits: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
        })
        .optional(),
    }),
  )
  .nullish();

const affinitySchema = z
  .object({
    nodeAffinity: z
      .object({
        requiredDuringSchedulingIgnoredDuringExecution: z
          .object({
            nodeSelectorTerms: z
              .array(
                z.object({
                  matchExpressions: z
                    .array(
                      z.object({
                        key: z.string(),
                        operator: z.string(),
                        values: z.array(z.string()).nullish(),
                      }),
                    )
                    .nullish(),
                }),
              )
              .nullish(),
          })
          .nullish(),
      })
      .nullish(),
  })
  .nullish();

const podSchema = z.object({
  metadata: z.object({
    name: z.string().default(""),
    namespace: z.string().default("default"),
    uid: z.string().default(""),
    labels: z.record(z.string(), z.string()).nullish(),
  }),
  spec: z.object({
    containers: containersSchema,
    affinity: affinitySchema,
    resourceClaims: z.array(z.unknown()).nullish(),
  }),
});

/** The parts of a pod that are read. */
export type ExtenderPod = z.output<typeof podSchema>;

export interface Candidates {
  readonly names: readonly string[];
  /** Text of the Nodes in the order of their names, if the scheduler sends whole Nodes. */
  readonly nodes?: readonly Uint8Array[] | undefined;
}

export interface ExtenderArgs {
  readonly pod: ExtenderPod;
  /** Undefined if the request has neither NodeNames nor Nodes. */
  readonly candidates: Candidates | undefined;
}

/** Throws ExtenderRequestInvalid. */
export function readArgs(body: Buffer): ExtenderArgs {
  try {
    return readMembers(body);
  } catch (cause) {
    if (cause instanceof MetalbridgeError) throw cause;
    throw invalid(errorMessage(cause), cause);
  }
}

function readMembers(body: Buffer): ExtenderArgs {
  let pod: unknown;
  let named: unknown;
  let listed: Candidates | undefined;
  const parse = (at: number, keep: (value: unknown) => void): number => {
    const end = endOfValue(body, at);
    keep(JSON.parse(body.toString("utf8", at, end)));
    return end;
  };
  const end = walkObject(body, skipSpace(body, 0), {
    Pod: (at) =>
      parse(at, (value) => {
        pod = value;
      }),
    NodeNames: (at) =>
      parse(at, (value) => {
        named = value;
      }),
    Nodes: (at) => {
      if (body[at] === NULL) return endOfValue(body, at);
      const read = readNodes(body, at);
      listed = read.candidates;
      return read.end;
    },
  });
  if (skipSpace(body, end) !== body.length) throw new SyntaxError(`malformed JSON at byte ${end}`);
  const parsed = podSchema.safeParse(pod);
  if (!parsed.success) throw invalid(`Pod.${parsed.error.issues[0]?.path.join(".")} is missing or invalid`);
  if (named === undefined || named === null) return { pod: parsed.data, candidates: listed };
  if (!isNames(named)) throw invalid("NodeNames must be a list of names");
  return { pod: parsed.data, candidates: { names: named } };
}

/** First byte of `null`. */
const NULL = 0x6e;

function readNodes(body: Buffer, at: number): { readonly candidates: Candidates; readonly end: number } {
  const names: string[] = [];
  const nodes: Uint8Array[] = [];
  const readNode = (nodeAt: number): number => {
    let name: string | undefined;
    const end = walkObject(body, nodeAt, {
      metadata: (metadataAt) =>
        walkObject(body, metadataAt, {
          name: (nameAt) => {
            const nameEnd = endOfValue(body, nameAt);
            name = String(JSON.parse(body.toString("utf8", nameAt, nameEnd)));
            return nameEnd;
          },
        }),
    });
    if (name === undefined) throw invalid("a Node has no name");
    names.push(name);
    nodes.push(body.subarray(nodeAt, end));
    return end;
  };
  // An empty list of Go is null.
  const end = walkObject(body, at, {
    items: (listAt) => (body[listAt] === NULL ? endOfValue(body, listAt) : walkList(body, listAt, readNode)),
  });
  return { candidates: { names, nodes }, end };
}

function isNames(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((name) => typeof name === "string");
}

function invalid(message: string, cause?: unknown): MetalbridgeError {
  return new MetalbridgeError("ExtenderRequestInvalid", message, undefined, { cause });
}

/** Reasons by node. */
type Failures = ReadonlyMap<string, string>;

/** An ExtenderFilterResult with the nodes that `failed` does not name, in the form in which the request has them. */
export function filterResult({ names, nodes }: Candidates, failed: Failures): Buffer {
  const isKept = (name: string) => !failed.has(name);
  const rest = `"FailedNodes":{},"FailedAndUnresolvableNodes":${JSON.stringify(Object.fromEntries(failed))},"Error":""}`;
  if (nodes === undefined) return Buffer.from(`{"NodeNames":${JSON.stringify(names.filter(isKept))},${rest}`);
  const comma = Buffer.from(",");
  const items = nodes.filter((_, index) => isKept(names[index] ?? "")).flatMap((node) => [comma, node]);
  return Buffer.concat([Buffer.from('{"Nodes":{"items":['), ...items.slice(1), Buffer.from(`]},${rest}`)]);
}

/** An ExtenderFilterResult that fails the request. */
export function filterError(message: string): Buffer {
  return Buffer.from(JSON.stringify({ Error: message }));
}

/** A HostPriorityList. */
export function priorityList(names: readonly string[], scores: readonly number[]): Buffer {
  return Buffer.from(JSON.stringify(names.map((Host, index) => ({ Host, Score: scores[index] ?? 0 }))));
}

const [QUOTE, BACKSLASH, COLON, COMMA] = [0x22, 0x5c, 0x3a, 0x2c];
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Returns the position after the value at `at`, usually by `endOfValue`. */
type Visit = (at: number) => number;

/** Position of the first byte at or after `at` that is no white space. */
function skipSpace(text: Uint8Array, at: number): number {
  let next = at;
  while (text[next] === 0x20 || text[next] === 0x0a || text[next] === 0x0d || text[next] === 0x09) next += 1;
  return next;
}

/** Visits the members with these keys; returns the position after the object. Throws SyntaxError if no object starts at `at`. */
function walkObject(text: Uint8Array, at: number, visits: Readonly<Record<string, Visit>>): number {
  const wanted = Object.entries(visits);
  return walk(text, at, [OPEN_OBJECT, CLOSE_OBJECT], (keyAt) => {
    if (text[keyAt] !== QUOTE) throw malformed(keyAt);
    const keyEnd = endOfString(text, keyAt);
    const colon = skipSpace(text, keyEnd);
    if (text[colon] !== COLON) throw malformed(colon);
    const valueAt = skipSpace(text, colon + 1);
    const visit = wanted.find(([key]) => isKey(text, keyAt + 1, keyEnd - 1, key))?.[1];
    return visit === undefined ? endOfValue(text, valueAt) : visit(valueAt);
  });
}

/** Visits every item; returns the position after the list. Throws SyntaxError if no list starts at `at`. */
function walkList(text: Uint8Array, at: number, visit: Visit): number {
  return walk(text, at, [OPEN_LIST, CLOSE_LIST], visit);
}

function walk(text: Uint8Array, at: number, [open, close]: readonly [number, number], visit: Visit): number {
  if (text[at] !== open) throw malformed(at);
  let next = skipSpace(text, at + 1);
  if (text[next] === close) return next + 1;
  for (;;) {
    next = skipSpace(text, visit(next));
    if (text[next] === close) return next + 1;
    if (text[next] !== COMMA) throw malformed(next);
    next = skipSpace(text, next + 1);
  }
}

/** Position after a value. Checks strings and nesting only. Throws SyntaxError if the text ends before. */
function endOfValue(text: Uint8Array, at: number): number {
  if (text[at] === QUOTE) return endOfString(text, at);
  if (text[at] !== OPEN_OBJECT && text[at] !== OPEN_LIST) return endOfWord(text, at);
  let depth = 0;
  for (let next = at; next < text.length; next += 1) {
    const byte = text[next];
    if (byte === QUOTE) next = endOfString(text, next) - 1;
    else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth += 1;
    else if (byte === CLOSE_OBJECT || byte === CLOSE_LIST) depth -= 1;
    if (depth === 0) return next + 1;
  }
  throw malformed(text.length);
}

/** The word is a number, true, false or null. */
function endOfWord(text: Uint8Array, at: number): number {
  let next = at;
  while (isWord(text[next])) next += 1;
  if (next === at) throw malformed(at);
  return next;
}

/** Digits, letters, and the signs and points of numbers. */
function isWord(byte = 0): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    /[-+.E]/.test(String.fromCharCode(byte))
  );
}

function endOfString(text: Uint8Array, at: number): number {
  for (let next = at + 1; next < text.length; next += 1) {
    if (text[next] === BACKSLASH) next += 1;
    else if (text[next] === QUOTE) return next + 1;
  }
  throw malformed(text.length);
}

/** Clients do not escape these keys. */
function isKey(text: Uint8Array, from: number, to: number, key: string): boolean {
  if (to - from !== key.length) return false;
  for (let index = 0; index < key.length; index += 1)
    if (text[from + index] !== key.charCodeAt(index)) return false;
  return true;
}

function malformed(at: number): SyntaxError {
  return new SyntaxError(`malformed JSON at byte ${at}`);
}
