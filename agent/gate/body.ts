/** A request's JSON: read up to a limit, and the daemon's model named in it without touching the rest, digits and bytes included. */
import type { IncomingMessage } from "node:http";
import { type Refusal, refuse, retryLater } from "./paths.ts";

/** The whole body, or why it is not taken. `hold` counts bytes and says whether there is room for them. */
export function readBody(
  request: IncomingMessage,
  limit: number,
  hold: (bytes: number) => boolean,
  done: (body: Buffer | Refusal) => void,
): void {
  const tooLarge = refuse(413, "too_large", `the body is larger than ${limit} bytes`);
  if (request.headers["content-encoding"] !== undefined) {
    done(refuse(415, "encoding", "send the body without content-encoding"));
    return;
  }
  if (Number(request.headers["content-length"] ?? 0) > limit) {
    done(tooLarge);
    return;
  }
  const chunks: Buffer[] = [];
  let size = 0;
  const take = (chunk: Buffer): void => {
    size += chunk.length;
    const isHeld = hold(chunk.length);
    if (size <= limit && isHeld) chunks.push(chunk);
    else {
      request.off("data", take).off("end", end);
      done(size > limit ? tooLarge : retryLater("busy", "too many large requests at once"));
    }
  };
  const end = (): void =>
    done(chunks.length === 1 && chunks[0] !== undefined ? chunks[0] : Buffer.concat(chunks));
  request.on("data", take).once("end", end);
}

export interface Naming {
  /** Members that name the model. */
  readonly keys: readonly string[];
  readonly accepts: (name: string) => boolean;
  /** What the daemon gets in its place. */
  readonly model: string;
  /** Members whose value is replaced where they are given; JSON text from JSON text, by key. */
  readonly overrides: Readonly<Record<string, (value: string) => string>>;
}

const DEEPEST = 500;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const CLOSERS = new Map([
  [OPEN_OBJECT, CLOSE_OBJECT],
  [OPEN_ARRAY, CLOSE_ARRAY],
]);
const COMMA = 0x2c;
const COLON = 0x3a;

interface Member {
  /** As Go's parser compares it: in lower case, and with the long s as s. */
  readonly key: string;
  /** In the spelling that the client chose, which other parsers compare. */
  readonly spelled: string;
  readonly from: number;
  readonly to: number;
}

/** The body as it is sent on, in parts. A body that names another model, or a member twice, is refused. */
export function nameModel(body: Buffer, naming: Naming): readonly Buffer[] | Refusal {
  const members = topLevelMembers(body);
  if (typeof members === "string")
    return refuse(400, "not_json", `the body is not a JSON object: ${members}`);
  const { keys, overrides } = naming;
  const ours = members.filter(({ key }) => keys.includes(key) || Object.hasOwn(overrides, key));
  // Parsers differ in which of two they take.
  const twice = ours.find(({ key }, index) => ours.findIndex((other) => other.key === key) < index);
  if (twice !== undefined) return refuse(400, "not_json", `the body has two members ${twice.key}`);
  const odd = ours.find(({ key, spelled }) => key !== spelled);
  if (odd !== undefined)
    return refuse(400, "not_json", `write ${odd.key} instead of ${JSON.stringify(odd.spelled)}`);
  const model = JSON.stringify(naming.model);
  const parts: Buffer[] = [];
  let at = 0;
  const replace = (from: number, to: number, text: string): void => {
    parts.push(body.subarray(at, from), Buffer.from(text));
    at = to;
  };
  const [first = "model"] = keys;
  if (!ours.some(({ key }) => key === first)) {
    const start = body.indexOf(OPEN_OBJECT) + 1;
    replace(start, start, `"${first}":${model}${members.length === 0 ? "" : ","}`);
  }
  for (const { key, from, to } of ours) {
    const value = body.toString("utf8", from, to);
    const problem = keys.includes(key) ? wrongName(value, naming) : undefined;
    if (problem !== undefined) return problem;
    replace(from, to, overrides[key]?.(value) ?? model);
  }
  return [...parts, body.subarray(at)];
}

function wrongName(text: string, naming: Naming): Refusal | undefined {
  const name = parsed(text);
  if (name === null || name === "" || (typeof name === "string" && naming.accepts(name))) return undefined;
  if (typeof name !== "string") return refuse(400, "not_json", "the model's name must be a string");
  return refuse(404, "model", `model ${JSON.stringify(name.slice(0, 200))} is not served here`);
}

/**
 * The members of the top-level object, with the places of their values, or what is wrong. Strict at this level, so that
 * no parser can see other members here; deeper only brackets and strings are followed.
 */
function topLevelMembers(body: Buffer): readonly Member[] | string {
  const members: Member[] = [];
  let at = afterSpace(body, 0);
  if (body[at] !== OPEN_OBJECT) return "it does not start with {";
  at = afterSpace(body, at + 1);
  if (body[at] !== CLOSE_OBJECT) {
    for (;;) {
      const member = memberAt(body, at);
      if (member === undefined) return `no member at byte ${at}`;
      members.push(member);
      at = afterSpace(body, member.to);
      if (body[at] === CLOSE_OBJECT) break;
      if (body[at] !== COMMA) return `no comma at byte ${at}`;
      at = afterSpace(body, at + 1);
    }
  }
  return afterSpace(body, at + 1) === body.length ? members : "something follows it";
}

function memberAt(body: Buffer, at: number): Member | undefined {
  const keyEnd = body[at] === QUOTE ? stringEnd(body, at) : -1;
  const key = keyEnd < 0 ? undefined : parsed(body.toString("utf8", at, keyEnd));
  const colon = afterSpace(body, keyEnd);
  if (typeof key !== "string" || body[colon] !== COLON) return undefined;
  const from = afterSpace(body, colon + 1);
  const to = valueEnd(body, from);
  const folded = key.toLowerCase().replaceAll("ſ", "s");
  return to < 0 ? undefined : { key: folded, spelled: key, from, to };
}

/** The end of a value, or -1. */
function valueEnd(body: Buffer, from: number): number {
  const first = body[from];
  if (first === QUOTE) return stringEnd(body, from);
  if (first === OPEN_OBJECT || first === OPEN_ARRAY) return nestedEnd(body, from);
  let at = from;
  while (isScalarByte(body[at])) at += 1;
  const text = body.toString("latin1", from, at);
  return text !== "" && parsed(text) !== undefined ? at : -1;
}

function nestedEnd(body: Buffer, from: number): number {
  const closers: number[] = [];
  let at = from;
  do {
    const byte = body[at] ?? 0;
    const closer = CLOSERS.get(byte);
    if (closer !== undefined && closers.push(closer) > DEEPEST) return -1;
    if ((byte === CLOSE_OBJECT || byte === CLOSE_ARRAY) && closers.pop() !== byte) return -1;
    at = byte === QUOTE ? stringEnd(body, at) : at + 1;
  } while (closers.length > 0 && at > 0 && at < body.length);
  return closers.length === 0 ? at : -1;
}

/** After the closing quote, or -1. Searched natively: an image is one long string. */
function stringEnd(body: Buffer, from: number): number {
  for (let quote = body.indexOf(QUOTE, from + 1); quote >= 0; quote = body.indexOf(QUOTE, quote + 1)) {
    let backslashes = 0;
    while (body[quote - 1 - backslashes] === BACKSLASH) backslashes += 1;
    if (backslashes % 2 === 0) return quote + 1;
  }
  return -1;
}

function afterSpace(body: Buffer, from: number): number {
  let at = from;
  while (body[at] === 0x20 || body[at] === 0x0a || body[at] === 0x0d || body[at] === 0x09) at += 1;
  return at;
}

/** Letters, digits, sign and point: what numbers, true, false and null are made of. */
function isScalarByte(byte = 0): boolean {
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    [0x2b, 0x2d, 0x2e, 0x45].includes(byte)
  );
}

/** Undefined where the text is not JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * A request's Ollama options without those of the load, which is the agent's: another context size would load the model again,
 * under all other clients. What is not an object is left for the server to refuse.
 */
export function withoutLoadOptions(text: string): string {
  const options = parsed(text);
  if (typeof options !== "object" || options === null || Array.isArray(options)) return text;
  const kept = Object.entries(options).filter(([key]) => !LOAD_OPTIONS.has(key.toLowerCase()));
  return kept.length === Object.keys(options).length ? text : JSON.stringify(Object.fromEntries(kept));
}

const LOAD_OPTIONS: ReadonlySet<string> = new Set([
  "num_ctx",
  "num_batch",
  "num_gpu",
  "main_gpu",
  "use_mmap",
  "num_thread",
]);

/** Whether a name in a daemon's list means the model. Ollama adds a tag where none is given. */
export function sameModel(name: unknown, model: string): boolean {
  if (typeof name !== "string") return false;
  const tagged = (text: string): string => (/:[^/]*$/.test(text) ? text : `${text}:latest`);
  return name === model || tagged(name) === tagged(model);
}

/** A daemon's list of models, reduced to the one that is served, under the name that clients know; undefined where it is no such list. */
export function narrowList(body: Buffer, model: string, service: string): string | undefined {
  const answer = parsed(body.toString("utf8"));
  if (typeof answer !== "object" || answer === null) return undefined;
  const lists = Object.entries(answer).filter(([key]) => key === "data" || key === "models");
  const isServed = (entry: unknown): entry is Record<string, unknown> =>
    typeof entry === "object" &&
    entry !== null &&
    ["id", "name", "model"].some((key) => sameModel((entry as Record<string, unknown>)[key], model));
  const rename = (entry: Record<string, unknown>): object => {
    const names = ["id", "name", "model"].filter((key) => Object.hasOwn(entry, key));
    const { aliases: _, ...rest } = entry;
    return { ...rest, ...Object.fromEntries(names.map((key) => [key, service])) };
  };
  const narrowed = lists.map(([key, entries]) => [
    key,
    (Array.isArray(entries) ? entries : []).filter(isServed).map(rename),
  ]);
  return lists.length === 0 ? undefined : JSON.stringify({ ...answer, ...Object.fromEntries(narrowed) });
}
