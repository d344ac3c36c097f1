/** The daemon's model named in a request's JSON without touching the rest, digits and bytes included. */

import type { GateRoute } from "../routes.ts";
import type { HeldBytes } from "./held-bytes.ts";
import { sameModel } from "./lists.ts";
import { MemberScanner, parsed } from "./members.ts";
import { type RequestRejection, rejectRequest } from "./rejection.ts";

/** Limits a member that is read: a model's name, or Ollama's options. */
const MAX_VALUE_BYTES = 64 * 1024;

export interface ModelNaming {
  /** Members that name the model. */
  readonly keys: readonly string[];
  readonly accepts: (name: string) => boolean;
  /** What the daemon gets in its place. */
  readonly model: string;
  /** Members whose value is replaced where they are given; JSON text from JSON text, by key. */
  readonly overrides: Readonly<Record<string, (value: string) => string>>;
}

/** How a route's requests name its model, under these members. */
export function modelNamingOf(
  { model, service, protocol }: Pick<GateRoute, "model" | "service" | "protocol">,
  keys: readonly string[],
): ModelNaming {
  const isOllama = protocol === "ollama";
  return {
    keys,
    model,
    accepts: (name) => name === service || (isOllama && sameModel(name, service)),
    // How long the model stays is the agent's decision: a client's 0 would unload it under all others.
    overrides: isOllama ? { keep_alive: () => "-1", options: withoutLoadOptions } : {},
  };
}

/** For a body whose bytes arrive now. */
export function scannerFor({ keys, overrides }: ModelNaming): MemberScanner {
  return new MemberScanner((key) => keys.includes(key) || Object.hasOwn(overrides, key));
}

/** Why a body that the scanner stumbled over is not taken. */
export function invalidJson(problem: string): RequestRejection {
  return rejectRequest(400, "not_json", `the body is not a JSON object: ${problem}`);
}

/** The body as it is sent on, in parts. A body that names another model, or a member twice, is refused. */
export function rewriteModel(
  body: HeldBytes,
  scanner: MemberScanner,
  naming: ModelNaming,
): Buffer[] | RequestRejection {
  const problem = scanner.end();
  if (problem !== undefined) return invalidJson(problem);
  const { keys, overrides } = naming;
  const ours = scanner.members;
  // Parsers differ in which of two they take.
  const twice = ours.find(({ key }, index) => ours.findIndex((other) => other.key === key) < index);
  if (twice !== undefined) return rejectRequest(400, "not_json", `the body has two members ${twice.key}`);
  const odd = ours.find(({ key, spelled }) => key !== spelled);
  if (odd !== undefined)
    return rejectRequest(400, "not_json", `write ${odd.key} instead of ${JSON.stringify(odd.spelled)}`);
  const long = ours.find(({ from, to }) => to - from > MAX_VALUE_BYTES);
  if (long !== undefined)
    return rejectRequest(400, "not_json", `the member ${long.key} is larger than ${MAX_VALUE_BYTES} bytes`);
  const model = JSON.stringify(naming.model);
  const parts: Buffer[] = [];
  let at = 0;
  const replace = (from: number, to: number, text: string): void => {
    parts.push(...body.slice(at, from), Buffer.from(text));
    at = to;
  };
  const [first = "model"] = keys;
  if (!ours.some(({ key }) => key === first)) {
    const start = scanner.opensAt;
    replace(start, start, `"${first}":${model}${scanner.count === 0 ? "" : ","}`);
  }
  for (const { key, from, to } of ours) {
    const value = Buffer.concat(body.slice(from, to)).toString("utf8");
    const wrong = keys.includes(key) ? wrongName(value, naming) : undefined;
    if (wrong !== undefined) return wrong;
    replace(from, to, overrides[key]?.(value) ?? model);
  }
  return [...parts, ...body.slice(at, body.length)];
}

function wrongName(text: string, naming: ModelNaming): RequestRejection | undefined {
  const name = parsed(text);
  if (name === null || name === "" || (typeof name === "string" && naming.accepts(name))) return undefined;
  if (typeof name !== "string") return rejectRequest(400, "not_json", "the model's name must be a string");
  return rejectRequest(404, "model", `model ${JSON.stringify(name.slice(0, 200))} is not served here`);
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
