/** The parsed call of a client: an inference path, the model by its body or path, how long it may wait, and the prompt prefix that selects its replica. Pure. */
import { LIST_PATHS } from "../../src/engines/contract/inference-routes.ts";
import { ENGINES } from "../../src/engines/registry.ts";
import { type Dialect, dialectOf, type Refusal } from "./dialect.ts";

/** A service by its own base URL, or a model by its public name. */
export type Target =
  | { readonly by: "service"; readonly namespace: string; readonly name: string }
  | { readonly by: "model"; readonly model: string };

export interface Call {
  readonly dialect: Dialect;
  /** Path at the engine. */
  readonly path: string;
  readonly target: Target;
}

/** A request as Envoy describes it. */
export interface CheckedRequest {
  readonly method: string;
  /** Original path with its query. */
  readonly path: string;
  /** `model` in the JSON or the form, if Envoy found one. */
  readonly model: string | undefined;
  /** Envoy could not read the JSON body. */
  readonly isBodyInvalid: boolean;
  readonly contentEncoding: string | undefined;
  /** The first bytes of the body. */
  readonly bodyStart: string;
}

export type RefusedCall = { readonly refusal: Refusal; readonly dialect: Dialect };

/** Inference paths that at least one engine serves. Only programs of runtime `generic` serve speech. */
export const INFERENCE_PATHS: ReadonlySet<string> = new Set(
  [...ENGINES.flatMap(({ apiPaths }) => apiPaths), "/v1/audio/speech"].filter(
    (path) => !LIST_PATHS.has(path),
  ),
);
/** A lenient engine might resolve these to another path. */
const SUSPICIOUS = /[%\\;\s]|\/\/|\/\.{1,2}(\/|$)/;
const SERVICE_PATH = /^\/s\/([a-z0-9][-a-z0-9]{0,62})\/([a-z0-9][-a-z0-9]{0,62})(\/.*)$/;
/** Model names that the API allows. */
const MODEL_NAME = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,252}$/;
const SHOWN_CHARACTERS = 80;

/** Reads the part of a call that needs no body. */
export function readPath(
  request: Pick<CheckedRequest, "method" | "path" | "contentEncoding">,
): (Omit<Call, "target"> & { readonly service: Target | undefined }) | RefusedCall {
  const path = request.path.split("?", 1)[0] ?? "";
  const own = SERVICE_PATH.exec(path);
  const [, namespace = "", name = "", below = path] = own ?? [];
  const dialect = dialectOf(below);
  const refuse = (refusal: Refusal): RefusedCall => ({ refusal, dialect });
  if (SUSPICIOUS.test(path)) {
    const message = "The path must be plain, without encoded characters or dot segments.";
    return refuse({ code: "bad_path", message });
  }
  if (!INFERENCE_PATHS.has(below)) {
    const message = `${shown(path)} is not an inference path of this gateway; paths start with /v1, for example /v1/chat/completions.`;
    return refuse({ code: "unknown_path", message });
  }
  if (request.method !== "POST")
    return refuse({ code: "method_not_allowed", message: `${below} takes POST.`, allow: "POST" });
  const { contentEncoding = "identity" } = request;
  if (contentEncoding.toLowerCase() !== "identity") {
    const message = `The body is compressed (content-encoding ${shown(contentEncoding)}), which the gateway does not support. Send it without compression.`;
    return refuse({ code: "unsupported_encoding", message });
  }
  return { dialect, path: below, service: own === null ? undefined : { by: "service", namespace, name } };
}

export function readCall(request: CheckedRequest): Call | RefusedCall {
  const read = readPath(request);
  if ("refusal" in read) return read;
  const { dialect, path, service } = read;
  if (service !== undefined) return { dialect, path, target: service };
  const model = modelOf(request);
  return typeof model === "string"
    ? { dialect, path, target: { by: "model", model } }
    : { refusal: model, dialect };
}

function modelOf({ model, isBodyInvalid }: CheckedRequest): string | Refusal {
  if (isBodyInvalid) {
    const message =
      "The body is neither valid JSON nor a multipart form. Send one JSON object with content-type application/json.";
    return { code: "invalid_json", message };
  }
  if (model === undefined || model === "") {
    const message =
      "The request has no model. Set `model` to a name that GET /v1/models lists, or use the base URL of a service, /s/NAMESPACE/NAME/v1.";
    return { code: "model_required", message };
  }
  if (!MODEL_NAME.test(model)) {
    const message = `\`model\` is not a valid name: ${shown(model)}. Use a name that GET /v1/models lists.`;
    return { code: "invalid_model", message };
  }
  return model;
}

/** Text of a client for a message: shortened, without control characters. */
export function shown(text: string): string {
  const plain = JSON.stringify(text.slice(0, SHOWN_CHARACTERS));
  return text.length > SHOWN_CHARACTERS ? `${plain}…` : plain;
}

/** Official clients time out after 10 minutes. */
const MAX_WAIT_SECONDS = 590;
export const DEFAULT_WAIT_SECONDS = 300;
const SECONDS = /^\d{1,6}(\.\d{1,3})?$/;

/** Reads `x-request-deadline`: seconds from now, or an RFC 3339 time. */
export function readWaitSeconds(header: string | undefined, nowMs: number): number | Refusal {
  if (header === undefined) return DEFAULT_WAIT_SECONDS;
  const at = Date.parse(header);
  const seconds = SECONDS.test(header) ? Number(header) : (at - nowMs) / 1_000;
  if (Number.isNaN(seconds)) {
    const message =
      "x-request-deadline is invalid. Set it to seconds, for example 30, or to a time like 2027-01-31T12:00:00Z.";
    return { code: "invalid_deadline", message };
  }
  return Math.min(MAX_WAIT_SECONDS, Math.max(0, seconds));
}

/** Maximum length of a prefix, in characters. */
const PREFIX_CHARACTERS = 1_024;
const START = /"(?:messages|input|prompt|system)"\s*:\s*/;

/**
 * The start of a prompt up to the end of the first user message, which stays the same while a conversation grows. `bodyStart`:
 * the first bytes of the JSON body. Undefined if they have no prompt.
 */
export function promptPrefix(bodyStart: string): string | undefined {
  const start = START.exec(bodyStart);
  if (start === null) return undefined;
  const text = bodyStart.slice(start.index + start[0].length);
  const user = text.indexOf('"user"');
  const end = user < 0 ? text.length : endOfObject(text, text.lastIndexOf("{", user));
  return text.slice(0, Math.min(end, PREFIX_CHARACTERS));
}

/** A string, or a bracket outside strings. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{}]/g;

/** Index after the object that starts at `from`; the length of the text if the object is cut off. */
function endOfObject(text: string, from: number): number {
  let depth = 0;
  for (const { 0: token, index } of text.slice(Math.max(0, from)).matchAll(TOKEN)) {
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    if (depth === 0) return Math.max(0, from) + index + 1;
  }
  return text.length;
}
