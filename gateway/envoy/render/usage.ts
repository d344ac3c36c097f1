/** The filters that read token usage from responses into metadata. Bytes pass through unchanged. Pure. */
import { METADATA } from "../names.ts";
import { type Config, typed } from "./typed.ts";

/** Where a response has a number: path in its JSON, and the key in the metadata. */
const PLACES: readonly (readonly [path: string, key: string])[] = [
  // OpenAI's completions, embeddings and rerank; the last chunk of a stream.
  ["usage.prompt_tokens", "in"],
  ["usage.completion_tokens", "out"],
  ["usage.prompt_tokens_details.cached_tokens", "cached"],
  // OpenAI's responses, and Anthropic's messages: Anthropic counts cached tokens apart.
  ["usage.input_tokens", "in"],
  ["usage.output_tokens", "out"],
  ["usage.input_tokens_details.cached_tokens", "cached"],
  ["usage.cache_read_input_tokens", "apart"],
  // The event response.completed of OpenAI's responses.
  ["response.usage.input_tokens", "in"],
  ["response.usage.output_tokens", "out"],
  ["response.usage.input_tokens_details.cached_tokens", "cached"],
  // The event message_start of Anthropic's messages; message_delta has usage.output_tokens.
  ["message.usage.input_tokens", "in"],
  ["message.usage.cache_read_input_tokens", "apart"],
  // Ollama's own API, without streams.
  ["prompt_eval_count", "in"],
  ["eval_count", "out"],
  // llama-server's last chunk, also where the client did not ask for usage.
  ["timings.prompt_n", "prompt_n"],
  ["timings.predicted_n", "predicted_n"],
  ["timings.cache_n", "cache_n"],
];

/** Events of Anthropic's streams and of responses repeat a whole answer. */
const MAX_EVENT_BYTES = 4 << 20;

const rules: readonly Config[] = PLACES.map(([path, key]) => ({
  selectors: path.split(".").map((name) => ({ key: name })),
  on_present: { metadata_namespace: METADATA.usage, key, type: "NUMBER" },
}));

/** For plain JSON, then for server-sent events. */
export function renderUsageFilters(): readonly Config[] {
  return [
    typed("metalbridge.usage-json", "extensions.filters.http.json_to_metadata.v3.JsonToMetadata", {
      response_rules: { rules, allow_content_types_regex: { regex: "(?i)application/json.*" } },
    }),
    typed("metalbridge.usage-events", "extensions.filters.http.sse_to_metadata.v3.SseToMetadata", {
      response_rules: {
        content_parser: typed(
          "envoy.content_parsers.json",
          "extensions.content_parsers.json.v3.JsonContentParser",
          {
            rules: rules.map((rule) => ({ rule })),
          },
        ),
        max_event_size: MAX_EVENT_BYTES,
      },
    }),
  ];
}
