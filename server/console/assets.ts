/** The console's pages: files that the build made, and the index with a nonce for each load. */
import { randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { errorCatalog } from "../../src/api/errors.ts";
import { CONSOLE_PATH } from "../../src/console/protocol.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".mjs": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".json": "application/json; charset=utf-8",
  ".webmanifest": "application/manifest+json",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".ico": "image/x-icon",
  ".webp": "image/webp",
  ".woff2": "font/woff2",
  ".txt": "text/plain; charset=utf-8",
  ".map": "application/json; charset=utf-8",
};
const ENCODINGS = [
  ["br", ".br"],
  ["gzip", ".gz"],
] as const;
/** The build puts files here whose names change with their content. */
const HASHED = "assets/";
const YEAR_SECONDS = 31_536_000;
const NONCE_PLACE = "__NONCE__";
const NONCE_BYTES = 18;

const HEADERS = {
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy":
    "camera=(), microphone=(), geolocation=(), payment=(), usb=(), display-capture=(), browsing-topics=()",
};

export function mountAssets(scope: FastifyInstance, folder: string): void {
  const config = { calledBy: "page" } as const;
  scope.get("/", { config }, async (_, reply) => reply.redirect(`${CONSOLE_PATH}/`));
  scope.get(CONSOLE_PATH, { config }, async (_, reply) => reply.redirect(`${CONSOLE_PATH}/`));
  scope.get(`${CONSOLE_PATH}/*`, { config }, async (request, reply) => {
    reply.headers(HEADERS);
    const { "*": name = "" } = request.params as { readonly "*"?: string };
    if (isPage(name)) return sendIndex(folder, reply);
    return sendFile(folder, name, request, reply);
  });
}

/** Names of objects in an address may contain dots, as in models/default/llama-3.1-8b. Files are in `assets`, or have no folder. */
function isPage(name: string): boolean {
  const [first = ""] = name.split("/");
  return name === "index.html" || !(first.includes(".") || `${first}/` === HASHED);
}

async function sendIndex(folder: string, reply: FastifyReply): Promise<FastifyReply> {
  const html = await readFile(path.join(folder, "index.html"), "utf8").catch(() => undefined);
  reply.header("cache-control", "no-store");
  if (html === undefined) {
    const { what, do: remedy, command } = errorCatalog.ConsoleNotBuilt;
    return reply.code(503).type("text/plain; charset=utf-8").send(`${what}\n${remedy}: ${command}\n`);
  }
  const nonce = randomBytes(NONCE_BYTES).toString("base64");
  reply.header("content-security-policy", policyWith(nonce)).type("text/html; charset=utf-8");
  return reply.send(html.replaceAll(NONCE_PLACE, nonce));
}

/** Only own files; a script without the nonce of this load does not run. */
function policyWith(nonce: string): string {
  return [
    "default-src 'none'",
    `script-src 'self' 'nonce-${nonce}'`,
    `style-src 'self' 'nonce-${nonce}'`,
    "connect-src 'self'",
    "img-src 'self' data: blob:",
    "font-src 'self'",
    "worker-src 'self'",
    "manifest-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'self'",
  ].join("; ");
}

async function sendFile(
  folder: string,
  name: string,
  { headers, method }: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const file = path.resolve(folder, name);
  const type = TYPES[path.extname(name)];
  const found = isInside(folder, file) && type !== undefined ? await findFile(file, headers) : undefined;
  if (found === undefined || type === undefined)
    return reply.code(404).type("text/plain; charset=utf-8").send("not found\n");
  const isHashed = name.startsWith(HASHED);
  reply.header("cache-control", isHashed ? `public, max-age=${YEAR_SECONDS}, immutable` : "no-cache");
  reply.header("vary", "accept-encoding").header("etag", found.tag).type(type);
  if (headers["if-none-match"] === found.tag) return reply.code(304).send();
  if (found.encoding !== undefined) reply.header("content-encoding", found.encoding);
  reply.header("content-length", found.size);
  return reply.send(method === "HEAD" ? undefined : createReadStream(found.file));
}

function isInside(folder: string, file: string): boolean {
  return file.startsWith(path.resolve(folder) + path.sep) && !file.includes("\0");
}

interface FoundFile {
  readonly file: string;
  readonly size: number;
  readonly tag: string;
  readonly encoding?: string;
}

/** The smallest form that the browser accepts and the build has made. */
async function findFile(file: string, headers: FastifyRequest["headers"]): Promise<FoundFile | undefined> {
  const accepted = String(headers["accept-encoding"] ?? "")
    .split(",")
    .map((one) => one.trim())
    .filter((one) => !/;\s*q=0(\.0*)?$/.test(one))
    .map((one) => one.split(";")[0]);
  const encodings = ENCODINGS.filter(([encoding]) => accepted.includes(encoding));
  for (const [encoding, extension] of [...encodings, [undefined, ""] as const]) {
    const facts = await stat(file + extension).catch(() => undefined);
    if (facts?.isFile() !== true) continue;
    const tag = `"${facts.size.toString(36)}-${Math.floor(facts.mtimeMs).toString(36)}${extension}"`;
    return { file: file + extension, size: facts.size, tag, encoding };
  }
  return undefined;
}
