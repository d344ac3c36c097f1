/**
 * Filter that reads `model` and `stream` from the JSON or `model` from the form of a request, and token usage from a response. It streams: it keeps a few hundred
 * bytes at most, builds no tree, and lets other requests continue between chunks. It does not change the bytes. Pure.
 */

import { METADATA_NAMESPACES } from "../names.ts";
import { type Config, typed } from "./typed.ts";

/** Paths of the numbers in a response, with their keys in the metadata. */
const USAGE: Readonly<Record<string, unknown>> = (() => {
  const counts = {
    // OpenAI's completions, embeddings and rerank; the last chunk of a stream.
    prompt_tokens: "in",
    completion_tokens: "out",
    prompt_tokens_details: { cached_tokens: "cached" },
    // OpenAI's responses, and Anthropic's messages, which count cached tokens separately.
    input_tokens: "in",
    output_tokens: "out",
    input_tokens_details: { cached_tokens: "cached" },
    cache_read_input_tokens: "apart",
  };
  return {
    usage: counts,
    // The events response.completed of OpenAI's responses and message_start of Anthropic's messages.
    response: { usage: counts },
    message: { usage: counts },
    // Ollama's own API without streaming.
    prompt_eval_count: "in",
    eval_count: "out",
    // llama-server's last chunk, even if the client did not ask for usage.
    timings: { prompt_n: "prompt_n", predicted_n: "predicted_n", cache_n: "cache_n" },
  };
})();

/**
 * A reader has one node of the requested tree per open object; inside any other value it only looks for brackets and strings. If a
 * key is repeated, its last value counts, as in the engines.
 */
const SOURCE = String.raw`
local find, sub, byte, gsub, char = string.find, string.sub, string.byte, string.gsub, string.char
local match, lower = string.match, string.lower
local MAX_TEXT, MAX_DEPTH, MAX_PART = 300, 512, 4096
local QUOTE, COLON, COMMA, OPEN, CLOSE, LIST, LIST_END = 34, 58, 44, 123, 125, 91, 93

local function new(tree, lines, found)
  return { tree = tree, lines = lines, found = found, depth = 0, nodes = {} }
end

local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local function plain(text)
  if not find(text, "\\", 1, true) then return text end
  text = gsub(text, "\\\\", "\\u005c")
  text = gsub(text, "\\([^u])", function(c) return ESCAPES[c] or c end)
  return (gsub(text, "\\u(%x%x%x%x)", function(hex)
    local code = tonumber(hex, 16)
    return code < 128 and char(code) or "?"
  end))
end

local function keep(s, text)
  if s.text and #s.text < MAX_TEXT then s.text = s.text .. sub(text, 1, MAX_TEXT) end
end

-- Up to the end of a string. An odd number of backslashes before a quote escapes it; they may have begun in the chunk before.
local function inside(s, chunk, at)
  local stop = find(chunk, '"', at, true)
  local last = stop or #chunk + 1
  local slash = last - 1
  while slash >= at and byte(chunk, slash) == 92 do slash = slash - 1 end
  local escaped = (last - 1 - slash) % 2 == 1
  if slash < at and s.escaped then escaped = not escaped end
  if s.text then keep(s, sub(chunk, at, (stop and escaped) and last or last - 1)) end
  s.escaped = not stop and escaped
  if stop and not escaped then
    s.quoted = false
    if s.names then s.key, s.names, s.text = plain(s.text), false, nil end
  end
  return last + 1
end

local function ended(s)
  if s.leaf and s.text then s.found(s.leaf, s.string and plain(s.text) or s.text, s.string) end
  s.leaf, s.text, s.key = nil, nil, nil
end

local function opened(s, code)
  if s.depth == 0 and s.done or s.depth == MAX_DEPTH then s.broken = true end
  local node = s.tree
  if s.depth > 0 then node = s.nodes[s.depth] and s.nodes[s.depth][s.key] end
  s.depth = s.depth + 1
  s.nodes[s.depth] = code == OPEN and type(node) == "table" and node or nil
  s.leaf, s.text, s.key, s.names = nil, nil, nil, s.nodes[s.depth] ~= nil
end

local function closed(s)
  if s.nodes[s.depth] then ended(s) end
  s.nodes[s.depth] = nil
  s.depth, s.names = s.depth - 1, false
  if s.depth == 0 then s.done = true end
  if s.depth < 0 then s.broken = true end
end

local function structure(s, code, node)
  if code == QUOTE then
    -- Text before or after the JSON; in a stream, other fields of an event.
    s.quoted, s.escaped, s.broken = s.depth > 0, false, s.depth <= 0
    if node and (s.names or s.leaf) then s.text, s.string = "", true end
  elseif code == COLON then
    local child = node[s.key]
    if type(child) == "string" then s.leaf, s.text, s.string = child, "", false end
  elseif code == COMMA then
    ended(s)
    s.names = true
  elseif code == OPEN or code == LIST then opened(s, code)
  else closed(s) end
end

local function feed(s, chunk)
  local at, size = 1, #chunk
  while at <= size and not (s.broken and not s.lines) do
    if s.quoted then at = inside(s, chunk, at)
    else
      local node = s.nodes[s.depth]
      local stop = find(chunk, node and '["{}%[%],:\n]' or '["{}%[%]\n]', at) or size + 1
      if s.leaf and s.text and not s.string then keep(s, sub(chunk, at, stop - 1)) end
      if stop <= size then
        local code = byte(chunk, stop)
        if code ~= 10 then structure(s, code, node)
        elseif s.lines then
          s.depth, s.nodes, s.leaf, s.text, s.done, s.broken = 0, {}, nil, nil, false, false
        end
      end
      at = stop + 1
    end
  end
end

local function read(handle, s)
  local size = 0
  for chunk in handle:bodyChunks() do
    size = size + chunk:length()
    feed(s, chunk:getBytes(0, chunk:length()))
  end
  return size
end

local function modelOf(part)
  local head, value = match(part, "^(.-)\r\n\r\n(.*)$")
  return head and find(head .. "\r", '[;%s]name="?model"?[;\r]') and sub(value, 1, MAX_TEXT)
end

-- The value of the first field "model" of a form. Larger parts, such as files, are passed over.
local function readForm(handle, boundary)
  local mark, rest, inPart = "\r\n--" .. boundary, "\r\n", false
  for chunk in handle:bodyChunks() do
    local text, at = rest .. chunk:getBytes(0, chunk:length()), 1
    local from, to = find(text, mark, at, true)
    while from do
      local model = inPart and from - at < MAX_PART and modelOf(sub(text, at, from - 1))
      if model then return model end
      at, inPart = to + 1, true
      from, to = find(text, mark, at, true)
    end
    inPart = inPart and #text - at < MAX_PART
    rest = sub(text, inPart and at or math.max(at, #text - #mark + 2))
  end
end

-- Envoy's objects are valid up to the next chunk only.
local function set(handle, namespace, key, value)
  handle:streamInfo():dynamicMetadata():set(namespace, key, value)
end

local function printable(text) return (gsub(text, "[^ -~]", "?")) end

local REQUEST, USAGE = { model = "model", stream = "stream" }, __USAGE__

function envoy_on_request(handle)
  local headers = handle:headers()
  local kind = headers:get("content-type") or ""
  if find(headers:get(":path"), "^/s/") then return end
  local model
  if find(lower(kind), "^multipart/") then
    model = readForm(handle, match(kind, '[Bb]oundary="?([^";,]+)') or "")
    if model then set(handle, "${METADATA_NAMESPACES.request}", "model", printable(model)) end
    return
  end
  local streams = "false"
  local s = new(REQUEST, false, function(key, text, isString)
    if key == "model" then model = isString and printable(text) or nil
    else
      local value = match(text, "^%s*(.-)%s*$")
      streams = (value == "false" or value == "null") and not isString and "false" or "true"
    end
  end)
  local size = read(handle, s)
  if size == 0 then return end
  if s.broken or not s.done then set(handle, "${METADATA_NAMESPACES.request}", "body", "invalid") return end
  set(handle, "${METADATA_NAMESPACES.request}", "stream", streams)
  if model then set(handle, "${METADATA_NAMESPACES.request}", "model", model) end
end

function envoy_on_response(handle)
  local kind = lower(handle:headers():get("content-type") or "")
  local lines = find(kind, "^text/event%-stream") ~= nil
  if not lines and not find(kind, "^application/json") then return end
  local last = {}
  read(handle, new(USAGE, lines, function(key, text)
    local number = tonumber(text)
    -- JSON has no text for some numbers, and without it the access log would lack the line.
    if number and not (math.abs(number) < 2^53) then number = -1 end
    if number and number ~= last[key] then
      last[key] = number
      set(handle, "${METADATA_NAMESPACES.usage}", key, number)
    end
  end))
end
`.replace("__USAGE__", luaTable(USAGE));

export function renderScan(name: string): Config {
  return typed(name, "extensions.filters.http.lua.v3.Lua", {
    default_source_code: { inline_string: SOURCE },
  });
}

function luaTable(tree: Readonly<Record<string, unknown>>): string {
  const fields = Object.entries(tree).map(
    ([key, value]) => `${key} = ${typeof value === "string" ? `"${value}"` : luaTable(value as typeof tree)}`,
  );
  return `{ ${fields.join(", ")} }`;
}
