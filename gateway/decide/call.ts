/** What a request asks for: an inference path, the model by its body or path, how long it may wait, and the prompt prefix that selects its replica. Pure. */
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

/** Paths of inference that at least one engine answers. Speech is of programs of runtime `generic`. */
export const INFERENCE_PATHS: ReadonlySet<string> = new Set(
  [...ENGINES.flatMap(({ apiPaths }) => apiPaths), "/v1/audio/speech"].filter(
    (path) => !LIST_PATHS.has(path),
  ),
);
/** Characters that a lenient engine might read as another path. */
const SUSPICIOUS = /[%\\;\s]|\/\/|\/\.{1,2}(\/|$)/;
const SERVICE_PATH = /^\/s\/([a-z0-9][-a-z0-9]{0,62})\/([a-z0-9][-a-z0-9]{0,62})(\/.*)$/;
/** Names of models on gateways, as the API allows them. */
const MODEL_NAME = /^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,252}$/;
const SHOWN_CHARACTERS = 80;

/** What the path says, which no body is needed for. */
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
    const message = `The body is compressed (content-encoding ${shown(contentEncoding)}), and the gateway reads none that is. Send it without compression.`;
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
      "The request names no model. Set `model` to a name that GET /v1/models lists, or use the base URL of a service, /s/NAMESPACE/NAME/v1.";
    return { code: "model_required", message };
  }
  if (!MODEL_NAME.test(model)) {
    const message = `\`model\` is not a valid name: ${shown(model)}. Use a name that GET /v1/models lists.`;
    return { code: "invalid_model", message };
  }
  return model;
}

/** A client's text for a message: without control characters and short. */
export function shown(text: string): string {
  const plain = JSON.stringify(text.slice(0, SHOWN_CHARACTERS));
  return text.length > SHOWN_CHARACTERS ? `${plain}…` : plain;
}

/** Official clients give up after 10 minutes; a hold beyond that would be lost. */
export const MAX_WAIT_SECONDS = 590;
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

/** Beginning of the conversation that counts, in characters. */
const PREFIX_CHARACTERS = 1_024;
const START = /"(?:messages|input|prompt|system)"\s*:\s*/;

/**
 * The beginning of the prompt in the first bytes of a JSON body, up to the end of the first message of a user: it stays the same
 * while a conversation grows. Undefined if the body does not begin with one.
 */
export function promptPrefix(bodyStart: string): string | undefined {
  const start = START.exec(bodyStart);
  if (start === null) return undefined;
  const text = bodyStart.slice(start.index + start[0].length);
  const user = text.indexOf('"user"');
  const end = user < 0 ? text.length : endOfObject(text, text.lastIndexOf("{", user));
  return text.slice(0, Math.min(end, PREFIX_CHARACTERS));
}

/** A string, or a bracket outside of strings. */
const TOKEN = /"(?:[^"\\]|\\.)*"|[[\]{}]/g;

/** Index after the object that begins at `from`, or the length of the text if it ends before. */
function endOfObject(text: string, from: number): number {
  let depth = 0;
  for (const { 0: token, index } of text.slice(Math.max(0, from)).matchAll(TOKEN)) {
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    if (depth === 0) return Math.max(0, from) + index + 1;
  }
  return text.length;
}
