/** A server whose every path goes wrong in its own way, and one that does not. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type HttpServer, serveHttp } from "../bed/http-server.ts";

export type BadOrigin = HttpServer;

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** `/…/good.gguf` delivers `content`; `/large` a file of that length that begins like it. */
export async function startBadOrigin(
  content: Uint8Array,
  largeBytes: number,
  address = "127.0.0.1",
  /** Further ones that it delivers. */
  files: Readonly<Record<string, Uint8Array>> = {},
): Promise<BadOrigin> {
  const answers: Readonly<Record<string, Answer>> = {
    "/good.gguf": serve(content, content.length),
    "/401.gguf": (_, response) => void response.writeHead(401).end("who are you"),
    "/redirects.gguf": (_, response) => void response.writeHead(302, { location: "/redirects.gguf" }).end(),
    "/silent.gguf": () => undefined,
    "/short.gguf": serve(content.subarray(0, 2_000), 2_000),
    "/page.gguf": (_, response) => void response.end("<!doctype html><title>Log in</title>"),
    "/empty.gguf": (_, response) => void response.writeHead(200, { "content-length": 0 }).end(),
    "/cut.gguf": headerThen(content, (response) => response.destroy()),
    "/stalls.gguf": headerThen(content, () => undefined),
    "/large.gguf": endless(content, largeBytes),
    ...Object.fromEntries(Object.entries(files).map(([name, bytes]) => [name, serve(bytes, bytes.length)])),
  };
  return serveHttp((request, response) => {
    const answer = answers[request.url ?? ""];
    if (answer === undefined) response.writeHead(404).end("no such file");
    else answer(request, response);
  }, address);
}

/** A file of `total` bytes that begins with `bytes`; zero behind them. Answers ranges. */
function serve(bytes: Uint8Array, total: number): Answer {
  return (request, response) => {
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    const from = Number(range?.[1] ?? 0);
    const to = Math.min(range?.[2] ? Number(range[2]) : total - 1, total - 1);
    const body = Buffer.alloc(Math.max(0, to + 1 - from));
    body.set(bytes.subarray(from, to + 1));
    const headers = { "content-length": body.length, etag: '"v1"' };
    if (range === null) response.writeHead(200, headers).end(body);
    else response.writeHead(206, { ...headers, "content-range": `bytes ${from}-${to}/${total}` }).end(body);
  };
}

/** Well for who reads the header (a range with an end), badly for who wants the whole file. */
function headerThen(content: Uint8Array, spoil: (response: ServerResponse) => void): Answer {
  const good = serve(content, content.length);
  return (request, response) => {
    if (isHeaderLook(request)) return good(request, response);
    if (request.headers.range !== undefined) return refuseMore(request, response, content, spoil);
    response.writeHead(200, { "content-length": content.length, etag: '"v1"' });
    response.write(content.subarray(0, 5_000), () => spoil(response));
  };
}

/** Who kept some bytes gets the head of an answer and no more: what comes of it is the same as the first time. */
function refuseMore(
  { headers: { range } }: IncomingMessage,
  response: ServerResponse,
  { length }: Uint8Array,
  spoil: (response: ServerResponse) => void,
): void {
  const from = Number(/^bytes=(\d+)-$/.exec(range ?? "")?.[1] ?? 0);
  const headers = { "content-length": length - from, etag: '"v1"' };
  response.writeHead(206, { ...headers, "content-range": `bytes ${from}-${length - 1}/${length}` });
  response.flushHeaders();
  setImmediate(() => spoil(response));
}

/** Gives its length only to a client that reads just the header: a host finds out when its disk is full. */
function endless(content: Uint8Array, total: number): Answer {
  const header = serve(content, total);
  return (request, response) => {
    if (isHeaderLook(request)) return header(request, response);
    response.writeHead(200);
    response.write(content);
    const more = () => {
      while (!response.destroyed && response.write(Buffer.alloc(1 << 16)));
    };
    response.on("drain", more);
    more();
  };
}

function isHeaderLook({ headers }: IncomingMessage): boolean {
  return /^bytes=\d+-\d+$/.test(headers.range ?? "");
}
