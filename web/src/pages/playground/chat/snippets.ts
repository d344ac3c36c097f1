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
      return python(base, request.path, body);
    case "javascript":
      return javascript(base, request.path, body);
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

function javascript(base: string, path: SnippetRequest["path"], body: object): string {
  const head = [
    "// npm install openai",
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
  if (path === "/v1/rerank")
    return [
      ...head,
      `const answer = await client.post("/rerank", { body: ${JSON.stringify(body, undefined, 2)} });`,
      "console.log(answer);",
    ].join("\n");
  const json = JSON.stringify({ ...body, stream: true }, undefined, 2);
  return [
    ...head,
    `const stream = await client.chat.completions.create(${json});`,
    'for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? "");',
  ].join("\n");
}
