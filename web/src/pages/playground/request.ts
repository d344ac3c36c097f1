/** The request of a chat, and requests as code for programs: curl, Python. Pure. */

/** Texts as typed. An empty one leaves the choice to the engine. */
export interface Parameters {
  readonly system: string;
  readonly temperature: string;
  readonly topP: string;
  readonly maxTokens: string;
  readonly seed: string;
  readonly isJson: boolean;
}

export interface UserTurn {
  readonly role: "user";
  readonly id: number;
  readonly text: string;
  /** data: URLs. */
  readonly images: readonly string[];
}

export interface ChatMessage {
  readonly role: "system" | "user" | "assistant";
  readonly content: string | readonly ContentPart[];
}

type ContentPart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image_url"; readonly image_url: { readonly url: string } };

export interface ChatBody {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly temperature?: number | undefined;
  readonly top_p?: number | undefined;
  readonly max_tokens?: number | undefined;
  readonly seed?: number | undefined;
  readonly response_format?: { readonly type: "json_object" } | undefined;
}

export const DEFAULT_PARAMETERS: Parameters = {
  system: "",
  temperature: "",
  topP: "",
  maxTokens: "",
  seed: "",
  isJson: false,
};

export type NumberName = "temperature" | "topP" | "maxTokens" | "seed";

export interface NumberLimits {
  readonly min: number;
  readonly max: number;
  readonly step: number;
}

export const LIMITS: Readonly<Record<NumberName, NumberLimits>> = {
  temperature: { min: 0, max: 2, step: 0.1 },
  topP: { min: 0, max: 1, step: 0.05 },
  maxTokens: { min: 1, max: 1_000_000, step: 1 },
  seed: { min: 0, max: 2_147_483_647, step: 1 },
};

/** Undefined for an empty text and for a value that is out of its limits. */
export function numberOf(name: NumberName, text: string): number | undefined {
  if (text.trim() === "") return undefined;
  const value = Number(text);
  const { min, max, step } = LIMITS[name];
  if (!Number.isFinite(value) || value < min || value > max) return undefined;
  return step === 1 && !Number.isInteger(value) ? undefined : value;
}

export function isInvalid(name: NumberName, text: string): boolean {
  return text.trim() !== "" && numberOf(name, text) === undefined;
}

/** Answers without text, such as failed ones, are left out. */
export function chatBody(
  model: string,
  turns: readonly (UserTurn | { readonly role: "assistant"; readonly text: string })[],
  parameters: Parameters,
): ChatBody {
  const system: ChatMessage[] =
    parameters.system.trim() === "" ? [] : [{ role: "system", content: parameters.system }];
  const messages = turns.flatMap((turn): ChatMessage[] => {
    if (turn.role === "user") return [{ role: "user", content: contentOf(turn) }];
    return turn.text === "" ? [] : [{ role: "assistant", content: turn.text }];
  });
  return {
    model,
    messages: [...system, ...messages],
    temperature: numberOf("temperature", parameters.temperature),
    top_p: numberOf("topP", parameters.topP),
    max_tokens: numberOf("maxTokens", parameters.maxTokens),
    seed: numberOf("seed", parameters.seed),
    response_format: parameters.isJson ? { type: "json_object" } : undefined,
  };
}

function contentOf({ text, images }: UserTurn): ChatMessage["content"] {
  if (images.length === 0) return text;
  const parts: ContentPart[] = images.map((url) => ({ type: "image_url", image_url: { url } }));
  return [...parts, { type: "text", text }];
}

export type SnippetLanguage = "curl" | "python";

export interface SnippetRequest {
  /** Public base URL of the gateway, without /v1. */
  readonly gatewayUrl: string;
  readonly path: "/v1/chat/completions" | "/v1/embeddings" | "/v1/rerank";
  readonly body: object;
}

const KEY = "mbk_YOUR_KEY";
/** A picture as text would fill the page. */
const MAX_URL = 64;

export function snippet(language: SnippetLanguage, request: SnippetRequest): string {
  const body = JSON.parse(JSON.stringify(request.body, shortenImages)) as Record<string, unknown>;
  const base = request.gatewayUrl.replace(/\/+$/, "");
  if (language === "curl") return curl(`${base}${request.path}`, body);
  return python(base, request.path, body);
}

function shortenImages(_: string, value: unknown): unknown {
  const isImage = typeof value === "string" && value.startsWith("data:image/") && value.length > MAX_URL;
  return isImage ? `${value.slice(0, value.indexOf(",") + 1)}BASE64_OF_THE_IMAGE` : value;
}

function curl(url: string, body: object): string {
  const json = JSON.stringify(body, undefined, 2).replaceAll("'", "'\\''");
  return [
    `curl ${url} \\`,
    `  -H 'authorization: Bearer ${KEY}' \\`,
    "  -H 'content-type: application/json' \\",
    `  -d '${json}'`,
  ].join("\n");
}

function python(base: string, path: SnippetRequest["path"], body: Record<string, unknown>): string {
  const head = [
    "# pip install openai",
    "from openai import OpenAI",
    "",
    `client = OpenAI(base_url="${base}/v1", api_key="${KEY}")`,
    "",
  ];
  if (path === "/v1/embeddings")
    return [
      ...head,
      `answer = client.embeddings.create(\n${pythonArguments(body)}\n)`,
      "for item in answer.data:",
      "    print(len(item.embedding), item.embedding[:4])",
    ].join("\n");
  if (path === "/v1/rerank")
    return [
      ...head,
      `answer = client.post("/rerank", cast_to=object, body=${pythonValue(body, 0)})`,
      "print(answer)",
    ].join("\n");
  return [
    ...head,
    `stream = client.chat.completions.create(\n${pythonArguments({ ...body, stream: true })}\n)`,
    "for chunk in stream:",
    "    if chunk.choices:",
    '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
  ].join("\n");
}

function pythonArguments(body: Record<string, unknown>): string {
  return Object.entries(body)
    .map(([name, value]) => `    ${name}=${pythonValue(value, 1)},`)
    .join("\n");
}

/** Strings of JSON are strings of Python, except for surrogates, which JSON.stringify escapes only if they are alone. */
function pythonValue(value: unknown, depth: number): string {
  if (value === null || value === undefined) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const [inner, outer] = ["    ".repeat(depth + 1), "    ".repeat(depth)];
  const isList = Array.isArray(value);
  const lines = isList
    ? value.map((item) => `${inner}${pythonValue(item, depth + 1)},`)
    : Object.entries(value).map(
        ([key, item]) => `${inner}${JSON.stringify(key)}: ${pythonValue(item, depth + 1)},`,
      );
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  return lines.length === 0 ? `${open}${close}` : [open, ...lines, `${outer}${close}`].join("\n");
}
