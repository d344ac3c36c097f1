/** Envoy's own error responses, in the format of the API of the request's path. Pure. */
import { MAX_HEADERS_KIB } from "../../../src/http/header-limit.ts";
import { DECIDE_CLUSTER, HEADERS, METADATA_NAMESPACES } from "../names.ts";
import { type Config, typed } from "./typed.ts";

interface LocalReply {
  /** CEL over Envoy's attributes. */
  readonly when: string;
  /** Replaces the status. */
  readonly status?: number;
  readonly message: string;
  readonly openAi: { readonly type: string; readonly code: string };
  readonly anthropicType: string;
  /** Both official clients follow this header. */
  readonly shouldRetry: boolean;
}

/** Server errors, and 529, Anthropic's status for an overload. */
const REFUSAL_STATUSES = [500, 501, 502, 503, 504, 529] as const;

const INVALID = { type: "invalid_request_error", code: "invalid_request" };
/** Requests that Envoy refuses itself, the most specific first. */
const REFUSED: readonly (Pick<LocalReply, "when" | "status" | "message"> & { readonly code: string })[] = [
  {
    when: 'response.code_details.contains("too_many_headers")',
    code: "headers_too_large",
    message: "The request has more than 100 headers. Send fewer headers.",
  },
  {
    when: "response.code == 431",
    code: "headers_too_large",
    message: `The request line and the headers are larger than ${MAX_HEADERS_KIB} KiB. Remove cookies and other large headers.`,
  },
  {
    when: 'response.code_details == "upgrade_failed" && request.method == "CONNECT"',
    status: 405,
    code: "method_not_allowed",
    message:
      "CONNECT is not supported: the gateway is no forward proxy. Remove it from the proxy settings of the client.",
  },
  {
    when: 'response.code_details == "upgrade_failed"',
    status: 426,
    code: "upgrade_not_supported",
    message:
      "WebSocket and other protocol upgrades are not supported. Send the request by HTTP POST, and set `stream` to receive events.",
  },
  {
    when: 'response.code_details == "path_normalization_failed"',
    code: "bad_path",
    message: "The path has a fragment (#) or an encoded zero byte. Send a plain path.",
  },
  {
    when: 'response.code_details in ["absolute_path_rejected", "missing_path_rejected"]',
    code: "bad_path",
    message: "The path of the request does not start with a slash. Send a path such as /v1/chat/completions.",
  },
  {
    when: 'response.code_details == "missing_host_header"',
    code: "invalid_request",
    message: "The request has no Host header. Send one, as HTTP/1.1 requires.",
  },
  {
    when: 'response.code_details == "http1.content_length_and_chunked_not_allowed"',
    code: "invalid_request",
    message: "The request has both Content-Length and Transfer-Encoding. Send one of them.",
  },
  {
    when: 'response.code_details == "http1.invalid_transfer_encoding"',
    status: 400,
    code: "invalid_request",
    message: "The gateway supports only Transfer-Encoding `chunked`.",
  },
  {
    when: "response.code >= 400 && response.code < 500",
    code: "invalid_request",
    message:
      "The request line, a header or the length of the request is not valid HTTP (%RESPONSE_CODE_DETAILS%). Check the client, proxies before the gateway, and whether the URL should start with https.",
  },
];

const UNAVAILABLE = { type: "server_error", code: "service_unavailable" };

/** The first match counts. Refusals of the decision service (ext_authz_denied) are complete and match none. */
function replies(maxBodyBytes: number): readonly LocalReply[] {
  const mib = Math.round((maxBodyBytes / (1 << 20)) * 10) / 10;
  return [
    {
      when: "response.code == 413",
      message: `The request body is larger than ${mib} MiB. Send a smaller request.`,
      openAi: { ...INVALID, code: "request_too_large" },
      anthropicType: "request_too_large",
      shouldRetry: false,
    },
    {
      when: "response.code == 408",
      message: "The request did not arrive in time. Send it again over a faster connection, or send less.",
      openAi: { ...INVALID, code: "request_timeout" },
      anthropicType: "timeout_error",
      shouldRetry: true,
    },
    ...REFUSED.map(({ when, status, code, message }) => ({
      when,
      status,
      message,
      openAi: { ...INVALID, code },
      anthropicType: "invalid_request_error",
      shouldRetry: false,
    })),
    {
      when: `response.code_details == "ext_authz_error" || (response.code == 503 && xds.cluster_name == "${DECIDE_CLUSTER}")`,
      message:
        "The decision service, which checks keys and chooses replicas, does not answer: it is starting or restarting. Retry in a few seconds. If the error persists, see the log of the gateway.",
      openAi: { ...UNAVAILABLE, code: "gateway_unavailable" },
      anthropicType: "overloaded_error",
      shouldRetry: true,
    },
    {
      when: 'response.code_details.contains("overflow")',
      message: "All connections to the replicas of this model are in use. Retry in a few seconds.",
      openAi: { ...UNAVAILABLE, code: "overloaded" },
      anthropicType: "overloaded_error",
      shouldRetry: true,
    },
    {
      when: 'response.code_details in ["no_healthy_upstream", "cluster_not_found"]',
      message: "No replica of this model is ready. Retry in a few seconds.",
      openAi: { ...UNAVAILABLE, code: "model_not_ready" },
      anthropicType: "overloaded_error",
      shouldRetry: true,
    },
    {
      when: "response.code == 504",
      message: "The replica did not answer in time.",
      openAi: { type: "server_error", code: "timeout" },
      anthropicType: "timeout_error",
      shouldRetry: true,
    },
    {
      when: "response.code == 503 || response.code == 502",
      message: "The connection to the replica failed before it answered. Retry the request.",
      openAi: UNAVAILABLE,
      anthropicType: "api_error",
      shouldRetry: true,
    },
  ];
}

/** Paths of Anthropic's and of Ollama's own API, also below the base URL of a service. */
const ANTHROPIC_PATH = "^(/s/[^/]+/[^/]+)?/v1/messages([/?].*)?$";
const OLLAMA_PATH = "^(/s/[^/]+/[^/]+)?/api/.*$";

export function renderLocalReplies(maxBodyBytes: number): Config {
  return {
    mappers: [
      ...REFUSAL_STATUSES.map(refusal),
      ...replies(maxBodyBytes).flatMap((reply) => [anthropic(reply), ollama(reply), openAi(reply)]),
    ],
  };
}

/** Changes only the status; body and headers come from the decision service. */
function refusal(status: number): Config {
  const hasStatus = `${metadata(METADATA_NAMESPACES.decision, HEADERS.status)} == "${status}"`;
  return {
    filter: celFilter(`response.code_details == "ext_authz_denied" && ${hasStatus}`),
    status_code: status,
  };
}

function openAi(reply: LocalReply): Config {
  const { type, code } = reply.openAi;
  return mapper(reply, matches(reply.when), { error: { message: reply.message, type, param: null, code } });
}

function anthropic(reply: LocalReply): Config {
  const body = { type: "error", error: { type: reply.anthropicType, message: reply.message } };
  return mapper(reply, atPath(ANTHROPIC_PATH, reply), body);
}

function ollama(reply: LocalReply): Config {
  return mapper(reply, atPath(OLLAMA_PATH, reply), { error: reply.message });
}

function atPath(regex: string, { when }: LocalReply): Config {
  const path = { header_filter: { header: { name: ":path", string_match: { safe_regex: { regex } } } } };
  return { and_filter: { filters: [path, matches(when)] } };
}

function mapper({ status, shouldRetry }: LocalReply, filter: Config, body: object): Config {
  const headers = [
    ["x-should-retry", String(shouldRetry)],
    // Replaced by the id of the request, if Envoy could parse the request.
    ["x-request-id", "%UNIQUE_ID%"],
    ...(shouldRetry ? [["retry-after", "1"]] : []),
  ];
  return {
    filter,
    status_code: status,
    body_format_override: {
      text_format_source: { inline_string: `${JSON.stringify(body)}\n` },
      content_type: "application/json",
    },
    headers_to_add: headers.map(([key, value]) => ({
      header: { key, value },
      append_action: "OVERWRITE_IF_EXISTS_OR_ADD",
    })),
  };
}

function matches(when: string): Config {
  return celFilter(`response.code_details != "ext_authz_denied" && (${when})`);
}

function celFilter(expression: string): Config {
  return {
    extension_filter: typed(
      "envoy.access_loggers.extension_filters.cel",
      "extensions.access_loggers.filters.cel.v3.ExpressionFilter",
      { expression },
    ),
  };
}

function metadata(namespace: string, key: string): string {
  return `metadata.filter_metadata["${namespace}"]["${key}"]`;
}
