/** The HTTP filters of the listener, in order. Pure. */

import { ASK_HOST_HEADER } from "../../../src/gateway/headers.ts";
import {
  CREDENTIAL_HEADERS,
  DECIDE_CLUSTER,
  HEADERS,
  METADATA_NAMESPACES,
  STEERING_PREFIXES,
} from "../names.ts";
import type { EnvoyCors } from "../types.ts";
import { renderScan } from "./scan.ts";
import { type Config, seconds, typed } from "./typed.ts";

export const AUTHENTICATE_FILTER = "metalbridge.authenticate";
export const SCAN_FILTER = "metalbridge.scan";
export const BUFFER_FILTER = "metalbridge.buffer";
export const DECIDE_FILTER = "metalbridge.decide";
export const CREDENTIALS_FILTER = "metalbridge.credentials";

/** The part of a body that the decision service sees. */
const DECIDE_BODY_BYTES = 4_096;
/** Backoff with full jitter. 8 retries would lose some requests in a restart of 3 s. */
const DECIDE_RETRIES = { count: 10, firstMs: 50 };

/** Host of the endpoint that answered or was tried last. An empty value sets no header. */
const HOST_IF_ASKED = `%CEL("${ASK_HOST_HEADER}" in request.headers ? xds.upstream_host_metadata.filter_metadata["${METADATA_NAMESPACES.endpoint}"]["host"] : "")%`;

export interface FilterOptions {
  readonly maxBodyBytes: number;
  readonly decideMs: number;
  readonly cors?: EnvoyCors;
}

export function renderFilters({ maxBodyBytes, decideMs, cors }: FilterOptions): readonly Config[] {
  return [
    ...(cors === undefined ? [] : [typed("envoy.filters.http.cors", "extensions.filters.http.cors.v3.Cors")]),
    // By the headers alone: the body of an unauthenticated client is neither kept nor read.
    renderQuestion(AUTHENTICATE_FILTER, "/authenticate", decideMs),
    renderScan(SCAN_FILTER),
    // The following filters wait for the whole body. Only this filter raises the buffer limit of a request.
    typed(BUFFER_FILTER, "extensions.filters.http.buffer.v3.Buffer", { max_request_bytes: maxBodyBytes }),
    mutateHeaders("metalbridge.describe", {
      request_mutations: [
        setHeader(HEADERS.model, `%DYNAMIC_METADATA(${METADATA_NAMESPACES.request}:model)%`),
        setHeader(HEADERS.stream, `%DYNAMIC_METADATA(${METADATA_NAMESPACES.request}:stream)%`),
        setHeader(HEADERS.body, `%DYNAMIC_METADATA(${METADATA_NAMESPACES.request}:body)%`),
        setHeader(HEADERS.bodyBytes, "%REQ(content-length)%"),
      ],
      // Also in refusals by the decision service, and in responses of engines.
      response_mutations: [
        ...removeSteering(),
        setHeader(HEADERS.host, HOST_IF_ASKED),
        // Present only in the response to an accepted preflight.
        setHeader(
          "access-control-allow-headers",
          "%REQ(access-control-request-headers)%",
          "OVERWRITE_IF_EXISTS",
        ),
      ],
    }),
    renderQuestion(DECIDE_FILTER, "/decide", decideMs, {
      with_request_body: { max_request_bytes: DECIDE_BODY_BYTES, allow_partial_message: true },
    }),
    mutateHeaders(CREDENTIALS_FILTER, {
      request_mutations: [
        ...CREDENTIAL_HEADERS.map(removeHeader),
        setHeader("authorization", `%DYNAMIC_METADATA(${METADATA_NAMESPACES.decision}:authorization)%`),
        setHeader("connection", `%DYNAMIC_METADATA(${METADATA_NAMESPACES.decision}:${HEADERS.connection})%`),
      ],
    }),
    typed("envoy.filters.http.router", "extensions.filters.http.router.v3.Router", {
      suppress_envoy_headers: true,
    }),
  ];
}

/** Runs before any other part reads a header. */
export function renderEarlyMutation(): Config {
  return typed(
    "envoy.http.early_header_mutation.header_mutation",
    "extensions.http.early_header_mutation.header_mutation.v3.HeaderMutation",
    { mutations: removeSteering() },
  );
}

function removeSteering(): readonly Config[] {
  return STEERING_PREFIXES.map((prefix) => ({ remove_on_match: { key_matcher: { prefix } } }));
}

/**
 * The endpoint and the ticket travel as metadata, so they cannot reach an engine as headers. The cluster must be a header,
 * because the route reads it after the route cache is cleared.
 */
function renderQuestion(name: string, prefix: string, decideMs: number, body: Config = {}): Config {
  const inMetadata = [HEADERS.ticket, HEADERS.endpoint, HEADERS.connection, HEADERS.status, "authorization"];
  return typed(name, "extensions.filters.http.ext_authz.v3.ExtAuthz", {
    clear_route_cache: true,
    status_on_error: { code: "ServiceUnavailable" },
    ...body,
    allowed_headers: { patterns: [{ safe_regex: { regex: ".*" } }] },
    http_service: {
      server_uri: { uri: "http://decide", cluster: DECIDE_CLUSTER, timeout: seconds(decideMs) },
      path_prefix: prefix,
      retry_policy: {
        retry_on: "connect-failure,refused-stream,reset,reset-before-request",
        num_retries: DECIDE_RETRIES.count,
        retry_back_off: {
          base_interval: seconds(DECIDE_RETRIES.firstMs),
          // Envoy also uses it as the timeout of each try, and a request may be held for minutes.
          max_interval: seconds(decideMs),
        },
      },
      authorization_response: {
        allowed_upstream_headers: { patterns: [{ exact: HEADERS.cluster }] },
        dynamic_metadata_from_headers: { patterns: inMetadata.map((exact) => ({ exact })) },
      },
    },
  });
}

export function mutateHeaders(name: string, mutations: Config): Config {
  return typed(name, "extensions.filters.http.header_mutation.v3.HeaderMutation", { mutations });
}

export function removeHeader(name: string): Config {
  return { remove: name };
}

/** An empty value sets no header. */
export function setHeader(key: string, value: string, append_action = "OVERWRITE_IF_EXISTS_OR_ADD"): Config {
  return { append: { header: { key, value }, append_action } };
}
