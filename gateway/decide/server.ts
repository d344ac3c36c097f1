/** HTTP server on a Unix socket that Envoy asks about each request. It also serves the list of models and /healthz. */
import { once } from "node:events";
import { rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { readBodyText } from "../../src/http/body.ts";
import { MAX_HEADERS_KIB } from "../../src/http/header-limit.ts";
import type { Log } from "../../src/util/ports.ts";
import { HEADERS } from "../envoy/names.ts";
import { listModels, type ModelListing } from "../models/models.ts";
import { type CheckedRequest, shown } from "./call.ts";
import { type Decider, type RequestDecision, refusalOfCaller } from "./decide.ts";
import { type Dialect, dialectOf, type Refusal, renderRefusal } from "./dialect.ts";

/** Prefixes of the paths that Envoy asks, before and after it reads the body. */
const QUESTION = /^\/(authenticate|decide)(\/.*)$/;
/** Envoy sends at most this much of a body with a question. */
const MAX_BODY_BYTES = 4_096;
/** Envoy limits the headers of clients, and adds its own. */
const MAX_HEADER_BYTES = 2 * MAX_HEADERS_KIB * 1024;
/** Envoy treats a decision with a 5xx status as an outage, so the status for the client is in a header. */
const REFUSED = 429;

const MODELS_PATH = /^(?:\/s\/([^/]+)\/([^/]+))?\/v1\/models(?:\/(.+))?$/;

export interface DecisionServerOptions {
  readonly socket: string;
  readonly decider: Decider;
  readonly listing: ModelListing;
  /** The reason why the gateway cannot decide yet; undefined if it can. */
  readonly notReady: () => string | undefined;
  /** Resolves once Envoy is open. An adopted Envoy may ask earlier; its questions wait. */
  readonly whenOpen: () => Promise<void>;
  readonly onDecision: (decision: RequestDecision, id: string) => void;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Resolves once it listens. Closes with the signal. */
export async function serveDecisions(options: DecisionServerOptions): Promise<void> {
  const { socket, log, signal } = options;
  await rm(socket, { force: true });
  // A held request lasts for minutes, and Envoy reuses its connections.
  const limits = { requestTimeout: 0, keepAliveTimeout: 0, maxHeaderSize: MAX_HEADER_BYTES };
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    answer(request, response, options).catch((err: unknown) => {
      log.error({ err, path: request.url }, "decision failed");
      const message =
        "The gateway failed to decide. Retry; if the error persists, see the log of the gateway.";
      respond(response, { code: "gateway_starting", message, retryAfterSeconds: 1 }, "openai", "");
    });
  };
  // Node would refuse any `expect` with an empty response.
  const server = createServer(limits, onRequest).on("checkExpectation", onRequest);
  server.listen(socket);
  await once(server, "listening");
  // For example, too many open files. Envoy reconnects.
  server.on("error", (err) => log.warn({ err }, "the decision service cannot accept a connection"));
  const close = (): void => {
    server.closeAllConnections();
    server.close();
  };
  signal.addEventListener("abort", close, { once: true });
  if (signal.aborted) close();
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  options: DecisionServerOptions,
): Promise<void> {
  const url = request.url ?? "/";
  if (url === "/healthz") return answerHealth(response, options);
  const [, question, path = url] = QUESTION.exec(url) ?? [];
  // The body of a request for the list is not read; Envoy stops sending it once it has the response.
  const bodyStart = question === undefined ? "" : await readStart(request);
  if (bodyStart === undefined) return void response.destroy();
  if (options.notReady() === undefined) await options.whenOpen();
  const problem = options.notReady();
  if (problem !== undefined) {
    const message = `The gateway is starting: it waits for ${problem}. Retry in a few seconds.`;
    const starting = { code: "gateway_starting", message, retryAfterSeconds: 1 } as const;
    return (question === undefined ? respond : refuse)(response, starting, dialectOf(path), idOf(request));
  }
  if (question === undefined) await answerList(request, response, url, options);
  else if (question === "authenticate") await answerHeaders(request, response, path, options);
  else await answerDecision(request, response, { path, bodyStart }, options);
}

function answerHealth(response: ServerResponse, { notReady }: DecisionServerOptions): void {
  const problem = notReady();
  response.writeHead(problem === undefined ? 200 : 503, { "content-type": "text/plain" });
  response.end(problem === undefined ? "ok\n" : `waiting for ${problem}\n`);
}

async function answerHeaders(
  request: IncomingMessage,
  response: ServerResponse,
  path: string,
  { decider, onDecision }: DecisionServerOptions,
): Promise<void> {
  const { method = "GET", headers } = request;
  const id = idOf(request);
  const contentEncoding = header(request, "content-encoding");
  const refused = await decider.refusalByHeaders({ id, method, path, contentEncoding, headers });
  if (refused === undefined) {
    response.writeHead(200, { "content-length": "0" });
    response.end();
  } else {
    onDecision(refused, id);
    refuse(response, refused.refusal, refused.dialect, id);
  }
}

async function answerDecision(
  request: IncomingMessage,
  response: ServerResponse,
  { path, bodyStart }: Pick<CheckedRequest, "path" | "bodyStart">,
  options: DecisionServerOptions,
): Promise<void> {
  const id = idOf(request);
  const closed = new AbortController();
  let isSent = false;
  response.once("finish", () => {
    isSent = true;
  });
  response.once("close", () => {
    if (!isSent) closed.abort();
  });
  // The connection may have closed while the body was read.
  if (response.destroyed || request.socket.destroyed) closed.abort();
  const decision = await options.decider.decide({
    id,
    method: request.method ?? "GET",
    path,
    model: header(request, HEADERS.model),
    isBodyInvalid: header(request, HEADERS.body) === "invalid",
    bodyBytes: Number(header(request, HEADERS.bodyBytes) ?? 0),
    isStream: isTrue(header(request, HEADERS.stream)),
    contentEncoding: header(request, "content-encoding"),
    bodyStart,
    headers: request.headers,
    signal: closed.signal,
  });
  options.onDecision(decision, id);
  if (decision.at === "granted") grant(response, decision);
  else if (decision.at === "refused") refuse(response, decision.refusal, decision.dialect, id);
  else response.destroy();
}

function grant(response: ServerResponse, { grant }: RequestDecision & { readonly at: "granted" }): void {
  const headers: Record<string, string> = {
    [HEADERS.cluster]: grant.cluster,
    [HEADERS.endpoint]: grant.addresses.join(","),
    [HEADERS.ticket]: grant.ticket,
    "content-length": "0",
  };
  if (grant.authorization !== undefined) headers.authorization = grant.authorization;
  if (grant.closesConnection) headers[HEADERS.connection] = "close";
  response.writeHead(200, headers);
  response.end();
}

/** GET /v1/models, GET /v1/models/NAME, and the same below the base URL of a service. */
async function answerList(
  request: IncomingMessage,
  response: ServerResponse,
  url: string,
  { listing }: DecisionServerOptions,
): Promise<void> {
  const [path = ""] = url.split("?", 1);
  const match = MODELS_PATH.exec(path);
  const id = idOf(request);
  if (match === null || request.method !== "GET") {
    const message = `${request.method} ${path} is not a path of this gateway.`;
    respond(response, { code: "unknown_path", message }, "openai", id);
    return;
  }
  const [, namespace, name] = match;
  const model = decoded(match[3]);
  const service = namespace === undefined || name === undefined ? undefined : `${namespace}/${name}`;
  const dialect = header(request, "anthropic-version") === undefined ? "openai" : "anthropic";
  const result = await listModels(listing, request.headers, { service, model });
  if (result.at === "unknown") {
    const message = `There is no model ${shown(model ?? "")} that your key may use. GET /v1/models lists the models.`;
    respond(response, { code: "model_not_found", message }, dialect, id);
  } else if (result.at === "refused") {
    respond(response, refusalOfCaller(result.caller), dialect, id);
  } else {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(result.body));
  }
}

/** Official clients percent-encode a slash in a name. */
function decoded(name: string | undefined): string | undefined {
  try {
    return name && decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** The response to a question of Envoy, which passes it to the client. */
function refuse(response: ServerResponse, refusal: Refusal, dialect: Dialect, id: string): void {
  if (response.headersSent || response.destroyed) return;
  const { status, headers, body } = renderRefusal(refusal, dialect, id);
  const forClient = status >= 500 ? { [HEADERS.status]: String(status) } : {};
  response.writeHead(status >= 500 ? REFUSED : status, {
    ...headers,
    ...forClient,
    "content-length": Buffer.byteLength(body),
  });
  response.end(body);
}

function respond(response: ServerResponse, refusal: Refusal, dialect: Dialect, id: string): void {
  if (response.headersSent || response.destroyed) return;
  const { status, headers, body } = renderRefusal(refusal, dialect, id);
  response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(body) });
  response.end(body);
}

/** Undefined if Envoy closed the connection, or if the body is larger than it may send. */
async function readStart(request: IncomingMessage): Promise<string | undefined> {
  return readBodyText(request, MAX_BODY_BYTES).catch(() => undefined);
}

/** Undefined if the header is absent. */
function isTrue(value: string | undefined): boolean | undefined {
  return value === undefined ? undefined : value === "true";
}

function idOf(request: IncomingMessage): string {
  return header(request, "x-request-id") ?? "";
}

function header(request: IncomingMessage, name: string): string | undefined {
  const value = request.headers[name];
  const first = typeof value === "string" ? value : value?.[0];
  return first === "" ? undefined : first;
}
