/** Error responses in the dialect of the request's path: OpenAI's, Anthropic's, or Ollama's. */

export type Dialect = "openai" | "anthropic" | "ollama";

/** By path, because a client of one API cannot parse the errors of another. */
export function dialectOf(path: string): Dialect {
  if (path === "/v1/messages" || path.startsWith("/v1/messages/")) return "anthropic";
  return path.startsWith("/api/") ? "ollama" : "openai";
}

/** Status of the response, and the error type in both OpenAI's and Anthropic's APIs. */
const KINDS = {
  bad_path: { status: 400, type: "invalid_request_error" },
  invalid_json: { status: 400, type: "invalid_request_error" },
  model_required: { status: 400, type: "invalid_request_error" },
  invalid_model: { status: 400, type: "invalid_request_error" },
  invalid_deadline: { status: 400, type: "invalid_request_error" },
  invalid_api_key: { status: 401, type: "authentication_error" },
  model_not_found: { status: 404, type: "not_found_error" },
  unknown_path: { status: 404, type: "not_found_error" },
  method_not_allowed: { status: 405, type: "invalid_request_error" },
  unsupported_encoding: { status: 415, type: "invalid_request_error" },
  rate_limit_exceeded: { status: 429, type: "rate_limit_error" },
  insufficient_quota: { status: 429, type: "rate_limit_error" },
  queue_full: { status: 429, type: "rate_limit_error" },
  queue_timeout: { status: 503, type: "overloaded_error" },
  model_unavailable: { status: 503, type: "api_error" },
  gateway_starting: { status: 503, type: "overloaded_error" },
} as const satisfies Record<string, { readonly status: number; readonly type: string }>;

export type RefusalCode = keyof typeof KINDS;

/** A refused request. `retryAfterSeconds`: when a retry may succeed; absent if no retry of the same request will. */
export interface Refusal {
  readonly code: RefusalCode;
  /** The problem, then what to do. */
  readonly message: string;
  readonly retryAfterSeconds?: number | undefined;
  /** Methods of the path, for `method_not_allowed`. */
  readonly allow?: string;
  /** `namespace/name` of the service that cannot serve the request. Absent if the caller is the cause. */
  readonly service?: string;
}

export function statusOf({ code }: Pick<Refusal, "code">): number {
  return KINDS[code].status;
}

export interface RefusalResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** OpenAI's official clients retry 408, 409, 429 and 5xx unless `x-should-retry` is false, and wait for `retry-after`. */
export function renderRefusal(refusal: Refusal, dialect: Dialect, requestId: string): RefusalResponse {
  const { status, type } = KINDS[refusal.code];
  const { retryAfterSeconds, allow } = refusal;
  const headers: Record<string, string> = {
    "content-type": "application/json",
    "x-should-retry": String(retryAfterSeconds !== undefined),
  };
  if (retryAfterSeconds !== undefined)
    headers["retry-after"] = String(Math.max(1, Math.ceil(retryAfterSeconds)));
  if (allow !== undefined) headers.allow = allow;
  if (status === 401) headers["www-authenticate"] = "Bearer";
  return { status, headers, body: JSON.stringify(bodyOf(refusal, type, dialect, requestId)) };
}

function bodyOf({ code, message }: Refusal, type: string, dialect: Dialect, requestId: string): object {
  switch (dialect) {
    case "anthropic":
      return { type: "error", error: { type, message }, request_id: requestId };
    case "ollama":
      return { error: message };
    case "openai":
      return { error: { message, type, param: code.includes("model") ? "model" : null, code } };
    default:
      return dialect satisfies never;
  }
}
