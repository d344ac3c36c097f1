/** Puts the daemon's model name into a request's JSON, and leaves all other bytes unchanged. */

import { keyOf } from "../../../src/api/names.ts";
import { defined } from "../../../src/util/defined.ts";
import { parseJson } from "../../../src/util/parse-json.ts";
import type { GateRoute } from "../routes.ts";
import type { BodyBuffer } from "./body-buffer.ts";
import { sameModel } from "./lists.ts";
import { type Member, MemberScanner } from "./members.ts";
import { type RequestRejection, rejectRequest } from "./rejection.ts";

/** Maximum size of a member that the gate reads: a model's name, or Ollama's options. */
const MAX_VALUE_BYTES = 64 * 1024;

/** Member of an engine's requests with the adapters that apply; the others do not. */
const ADAPTERS = "lora";
const NO_ADAPTER = '[{"id":0,"scale":0}]';

export interface ModelNaming {
  /** Members that name the model. */
  readonly keys: readonly string[];
  readonly accepts: (name: string) => boolean;
  /** The name that replaces it. */
  readonly model: string;
  /** Names that select an adapter of the engine by its index, in addition to the model. */
  readonly adapters?: readonly string[];
  /** Functions by member that replace the member's JSON text if the request has the member. */
  readonly overrides: Readonly<Record<string, (value: string) => string>>;
}

/** The model naming of a route's requests, under these members. `isResolved`: a gateway has chosen this route for the name. */
export function modelNamingOf(
  route: Pick<GateRoute, "model" | "service" | "namespace" | "protocol">,
  {
    nameKeys: keys,
    adapters = [],
  }: { readonly nameKeys: readonly string[]; readonly adapters?: readonly string[] },
  isResolved = false,
): ModelNaming {
  const { model, protocol } = route;
  const isOllama = protocol === "ollama";
  const names = [route.service, keyOf({ namespace: route.namespace, name: route.service })];
  const isOwn = (name: string) =>
    names.some((own) => name === own || (isOllama && sameModel(name, own))) || adapters.includes(name);
  return {
    keys,
    model,
    adapters,
    accepts: (name) => isResolved || isOwn(name),
    // The agent decides how long the model stays loaded: a client's 0 would unload it for all clients.
    overrides: defined<ModelNaming["overrides"]>({
      keep_alive: isOllama ? () => "-1" : undefined,
      options: isOllama ? withoutLoadOptions : undefined,
      [ADAPTERS]: adapters.length > 0 ? selectNone : undefined,
    }),
  };
}

/** An empty selection does not stop the engine from using the cache of an earlier request with an adapter. */
function selectNone(value: string): string {
  return /^\[\s*\]$/.test(value) ? NO_ADAPTER : value;
}

/** A scanner for a body that names its model this way. */
export function scannerFor({ keys, overrides }: ModelNaming): MemberScanner {
  return new MemberScanner((key) => keys.includes(key) || Object.hasOwn(overrides, key));
}

/** The rejection for a problem that the scanner found. */
export function invalidJson(problem: string): RequestRejection {
  return rejectRequest(400, "not_json", `the body is not a JSON object: ${problem}`);
}

/** Returns the parts of the body to send to the daemon. Rejects a body that names another model, or a member twice. */
export function rewriteModel(
  body: BodyBuffer,
  scanner: MemberScanner,
  naming: ModelNaming,
): Buffer[] | RequestRejection {
  const problem = scanner.end();
  if (problem !== undefined) return invalidJson(problem);
  const { keys, overrides } = naming;
  const { members } = scanner;
  const ambiguous = ambiguityOf(members);
  if (ambiguous !== undefined) return reject(ambiguous);
  const hasOwnSelection = members.some(({ key }) => key === ADAPTERS);
  const model = (name?: unknown) => modelText(naming, name, hasOwnSelection);
  const parts: Buffer[] = [];
  let at = 0;
  const replace = (from: number, to: number, text: string): void => {
    parts.push(...body.slice(at, from), Buffer.from(text));
    at = to;
  };
  const [first = "model"] = keys;
  if (!members.some(({ key }) => key === first)) {
    const start = scanner.opensAt;
    replace(start, start, `"${first}":${model()}${scanner.count === 0 ? "" : ","}`);
  }
  for (const { key, from, to } of members) {
    const value = Buffer.concat(body.slice(from, to)).toString("utf8");
    const name = keys.includes(key) ? parseJson(value) : null;
    const wrong = wrongName(name, naming, hasOwnSelection);
    if (wrong !== undefined) return wrong;
    replace(from, to, overrides[key]?.(value) ?? model(name));
  }
  return [...parts, ...body.slice(at, body.length)];
}

function reject(message: string): RequestRejection {
  return rejectRequest(400, "not_json", message);
}

/** The reason why another parser may read other values of the selected members. */
function ambiguityOf(members: readonly Member[]): string | undefined {
  // Parsers differ in which of two equal members they use.
  const twice = members.find(({ key }, index) => members.findIndex((other) => other.key === key) < index);
  if (twice !== undefined) return `the body has two members ${twice.key}`;
  const misspelled = members.find(({ key, spelled }) => key !== spelled);
  if (misspelled !== undefined)
    return `write ${misspelled.key} instead of ${JSON.stringify(misspelled.spelled)}`;
  const long = members.find(({ from, to }) => to - from > MAX_VALUE_BYTES);
  return long && `the member ${long.key} is larger than ${MAX_VALUE_BYTES} bytes`;
}

/**
 * JSON text of the name, followed by the adapters to apply. Without a selection the engine would apply none either, but keep
 * the cache that an earlier request filled with an adapter.
 */
function modelText({ model, adapters = [] }: ModelNaming, name: unknown, hasOwnSelection: boolean): string {
  const index = adapters.indexOf(name as string);
  const selection = index < 0 ? NO_ADAPTER : `[{"id":${index},"scale":1}]`;
  const needsSelection = adapters.length > 0 && !hasOwnSelection;
  return `${JSON.stringify(model)}${needsSelection ? `,"${ADAPTERS}":${selection}` : ""}`;
}

function wrongName(
  name: unknown,
  naming: ModelNaming,
  hasOwnSelection: boolean,
): RequestRejection | undefined {
  if (hasOwnSelection && naming.adapters?.some((adapter) => adapter === name) === true)
    return reject(`the model is an adapter, so the body may not have the member ${ADAPTERS}`);
  if (name === null || name === "" || (typeof name === "string" && naming.accepts(name))) return undefined;
  if (typeof name !== "string") return rejectRequest(400, "not_json", "the model's name must be a string");
  return rejectRequest(404, "model", `model ${JSON.stringify(name.slice(0, 200))} is not served here`);
}

/**
 * Removes the options of the load, which the agent decides: another context size would reload the model for all clients. The
 * server rejects options that are not an object.
 */
export function withoutLoadOptions(text: string): string {
  const options = parseJson(text);
  if (typeof options !== "object" || options === null || Array.isArray(options)) return text;
  const remaining = Object.entries(options).filter(([key]) => !LOAD_OPTIONS.has(key.toLowerCase()));
  const hasChanged = remaining.length !== Object.keys(options).length;
  return hasChanged ? JSON.stringify(Object.fromEntries(remaining)) : text;
}

const LOAD_OPTIONS: ReadonlySet<string> = new Set([
  "num_ctx",
  "num_batch",
  "num_gpu",
  "main_gpu",
  "use_mmap",
  "num_thread",
]);
