/** The same request for programs: curl, Python, JavaScript. Pure. */

export type SnippetLanguage = "curl" | "python" | "javascript";

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
  switch (language) {
    case "curl":
      return curl(`${base}${request.path}`, body);
    case "python":
      return request.path === "/v1/rerank" ? pythonHttp(base, body) : python(base, request.path, body);
    case "javascript":
      return request.path === "/v1/rerank"
        ? javascriptHttp(base, body)
        : javascript(base, request.path, body);
    default:
      return language satisfies never;
  }
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

function python(base: string, path: string, body: Record<string, unknown>): string {
  const head = [
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
  return [
    ...head,
    `stream = client.chat.completions.create(\n${pythonArguments({ ...body, stream: true })}\n)`,
    "for chunk in stream:",
    "    if chunk.choices:",
    '        print(chunk.choices[0].delta.content or "", end="", flush=True)',
  ].join("\n");
}

function pythonHttp(base: string, body: object): string {
  return [
    "import httpx",
    "",
    "answer = httpx.post(",
    `    "${base}/v1/rerank",`,
    `    headers={"authorization": "Bearer ${KEY}"},`,
    `    json=${pythonValue(body, 1)},`,
    ")",
    "print(answer.json())",
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

function javascript(base: string, path: string, body: object): string {
  const head = [
    'import OpenAI from "openai";',
    "",
    `const client = new OpenAI({ baseURL: "${base}/v1", apiKey: "${KEY}" });`,
    "",
  ];
  if (path === "/v1/embeddings")
    return [
      ...head,
      `const answer = await client.embeddings.create(${JSON.stringify(body, undefined, 2)});`,
      "for (const { embedding } of answer.data) console.log(embedding.length, embedding.slice(0, 4));",
    ].join("\n");
  const json = JSON.stringify({ ...body, stream: true }, undefined, 2);
  return [
    ...head,
    `const stream = await client.chat.completions.create(${json});`,
    'for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "");',
  ].join("\n");
}

function javascriptHttp(base: string, body: object): string {
  return [
    `const answer = await fetch("${base}/v1/rerank", {`,
    '  method: "POST",',
    `  headers: { authorization: "Bearer ${KEY}", "content-type": "application/json" },`,
    `  body: JSON.stringify(${JSON.stringify(body, undefined, 2).replaceAll("\n", "\n  ")}),`,
    "});",
    "console.log(await answer.json());",
  ].join("\n");
}
