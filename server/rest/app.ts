/** The density API over HTTP: authorization, validated input, ETags, plain-text refusals. */
import { Readable } from "node:stream";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { z } from "zod";
import type { Density } from "../../fitness/density/density.ts";
import { GROUP } from "../../src/api/group.ts";
import { MAX_CREDENTIAL, MAX_HEADERS_KIB } from "../../src/http/header-limit.ts";
import { momentOf } from "../../src/util/moment.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import type { Console } from "../console/console.ts";
import { createHttpApp, type HttpAppOptions } from "../http/app.ts";
import type { HandleRequest } from "../mcp/http.ts";
import { type AuthorizationResult, type AuthorizeRequest, RESOURCE, type Right } from "./authorize.ts";
import { type AnswerLimit, createAnswerLimit, createEncode, type Encode } from "./encode.ts";
import { openApiDocument } from "./openapi.ts";
import { type RestRoute, type RouteResponse, type RouteResult, routes } from "./routes.ts";
import { createWatches, type OpenedWatch, type WatchedQuery } from "./watches.ts";

export interface AppOptions {
  readonly density: Density;
  readonly clock: Clock;
  readonly log: Log;
  readonly authorize: AuthorizeRequest;
  /** The part that is not ready; undefined once the watches have listed everything. */
  readonly notReady: () => string | undefined;
  /** Handles POST requests to /mcp. */
  readonly mcp?: HandleRequest;
  /** Adds its own routes; its session is accepted instead of a token. */
  readonly console?: Console | undefined;
  readonly tls?: HttpAppOptions["tls"];
}

export const OPENAPI_PATH = "/openapi.json";
const MCP_PATH = "/mcp";
const MAX_BODY_BYTES = 64 * 1024;
/** Object names have up to 253 characters, percent-encoded up to three times as many. */
const MAX_NAME = 800;
const REQUEST_MS = 30_000;
/** Many clients may share one proxy. */
const CONNECTIONS = { total: 512, perAddress: 256 };
/** A client that neither sends nor reads for this long is disconnected; watches send something every 15 s. */
const SILENCE_MS = 60_000;
const RETRY_SECONDS = "2";
const BUSY_SECONDS = "10";

/** The caller starts listening. Closing the app ends its watches. */
export function createApp(options: AppOptions): FastifyInstance {
  const app = createHttpApp({
    bodyLimit: MAX_BODY_BYTES,
    requestTimeout: REQUEST_MS,
    connectionTimeout: SILENCE_MS,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: MAX_NAME },
    server: { maxHeaderSize: MAX_HEADERS_KIB * 1024 },
    connections: CONNECTIONS,
    tls: options.tls,
  });
  acceptAnyJson(app);
  const answers = createAnswerLimit();
  const encode = createEncode();
  app.addHook("onRequest", async (request, reply) => admit(options, answers, request, reply));
  app.setErrorHandler((error: Error & { readonly statusCode?: number }, _, reply) =>
    refuseError(options, error, reply),
  );
  app.setNotFoundHandler((_, reply) => plain(reply, 404, "not found"));
  const watches = createWatches(options);
  app.addHook("onClose", async () => watches.close());
  let document: object | undefined;
  app.get(OPENAPI_PATH, { config: { part: "openapi" } }, async () => {
    document ??= openApiDocument();
    return document;
  });
  const { mcp } = options;
  if (mcp !== undefined)
    app.post(MCP_PATH, { config: { part: "mcp" } }, async (request, reply) => {
      reply.hijack();
      await mcp(request.raw, reply.raw, request.body).catch((error: unknown) => {
        options.log.error({ err: error }, "a request failed");
        reply.raw.destroy();
      });
    });
  options.console?.mount(app);
  for (const route of routes)
    app.route({
      method: route.method,
      url: route.path,
      config: { part: route.part, isRoute: true },
      handler: async (request, reply) => {
        const read = readRequest(route, request);
        if (!read.ok) return plain(reply, 400, read.why);
        if (isWatch(request)) {
          const watched = await watchedBy(options, request, route, read);
          await watches.turn();
          return watch(watches.open(watched), reply);
        }
        return send(encode, request, reply, answerOf(options, route, read));
      },
    });
  return app;
}

const WHOLE = "all";

function rowsOf({ keyOf }: RestRoute, answer: RouteResponse): ReadonlyMap<string, object> {
  if (keyOf === undefined) return new Map([[WHOLE, answer.body]]);
  return new Map([...(answer.list?.rows ?? [])].map((row) => [keyOf(row), row]));
}

async function watchedBy(
  options: AppOptions,
  request: FastifyRequest,
  route: RestRoute,
  read: Extract<Read, { ok: true }>,
): Promise<WatchedQuery> {
  const { watch: _, ...query } = read.query;
  const verdict = await verdictOf(options, request);
  return {
    query: JSON.stringify([route.path, read.name, query]),
    user: verdict.at === "allowed" ? verdict.user : "",
    source: { answer: () => answerOf(options, route, read), rowsOf: (answer) => rowsOf(route, answer) },
    isStillAllowed: async () => {
      const { at } = await verdictOf(options, request);
      return at === "allowed" || at === "unavailable";
    },
  };
}

function watch(opened: OpenedWatch, reply: FastifyReply): FastifyReply {
  switch (opened.at) {
    case "refused":
      return plain(reply, opened.answer.status, opened.answer.text);
    case "full":
      reply.header("retry-after", BUSY_SECONDS);
      return plain(reply, 503, `too many watches: ${opened.why}`);
    case "open":
      reply.hijack();
      opened.start(reply.raw);
      return reply;
    default:
      return opened satisfies never;
  }
}

/** Like the original API, parses a body of any content type as JSON. */
function acceptAnyJson(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("*", { parseAs: "string" }, (_, body, done) => {
    try {
      done(null, JSON.parse(String(body)));
    } catch (cause) {
      const why = cause instanceof Error ? cause.message : String(cause);
      done(Object.assign(new Error(`invalid request body: ${why}`), { statusCode: 400 }));
    }
  });
}

async function admit(
  options: AppOptions,
  answers: AnswerLimit,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<unknown> {
  // The console admits its own requests.
  if ((request.routeOptions.config as { readonly calledBy?: string }).calledBy !== undefined)
    return undefined;
  const verdict = await verdictOf(options, request, reply);
  // The client disconnected during the authorization: `close` was already emitted and would free no place.
  if (reply.raw.destroyed) return reply.hijack();
  switch (verdict.at) {
    case "unauthenticated":
      reply.header("www-authenticate", "Bearer");
      return plain(reply, 401, "send a token of the cluster: Authorization: Bearer …");
    case "forbidden":
      return plain(reply, 403, `${verdict.user} may not ${textOf(rightOf(request))}`);
    case "unavailable":
      reply.header("retry-after", RETRY_SECONDS);
      return plain(reply, 503, `cannot check the token: ${verdict.why}`);
    case "allowed": {
      const waiting = options.notReady();
      reply.header("retry-after", RETRY_SECONDS);
      if (waiting !== undefined)
        return plain(reply, 503, `fitness cache not available: waiting for ${waiting}`);
      if (!isWatch(request) && !answers.take(verdict.user, reply.raw))
        return plain(
          reply,
          503,
          `too many concurrent requests: ${verdict.user} has not read earlier responses`,
        );
      reply.removeHeader("retry-after");
      return undefined;
    }
    default:
      return verdict satisfies never;
  }
}

async function verdictOf(
  { authorize, console: page }: AppOptions,
  request: FastifyRequest,
  reply?: FastifyReply,
): Promise<AuthorizationResult> {
  const token = /^Bearer +(\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
  const right = rightOf(request);
  if (token !== undefined && token.length > MAX_CREDENTIAL) return { at: "unauthenticated" };
  if (token !== undefined) return authorize(token, right, request.ip);
  return (await page?.authorize(request, right, reply)) ?? { at: "unauthenticated" };
}

/** Unknown routes require the right to read nodes. */
function rightOf({ method, routeOptions }: FastifyRequest): Right {
  const { part = "nodes" } = routeOptions.config as { readonly part?: string };
  return { verb: method === "POST" ? "create" : "get", part };
}

function textOf({ verb, part }: Right): string {
  return `${verb} ${RESOURCE}/${part} of ${GROUP}`;
}

type Read =
  | {
      readonly ok: true;
      readonly query: Record<string, unknown>;
      readonly body: unknown;
      readonly name: string;
    }
  | { readonly ok: false; readonly why: string };

function readRequest(route: RestRoute, request: FastifyRequest): Read {
  const query = route.query.safeParse(request.query);
  if (!query.success) return { ok: false, why: describeIssue(query.error, "query parameter") };
  const body = route.body?.safeParse(request.body ?? {});
  if (body !== undefined && !body.success) return { ok: false, why: describeIssue(body.error, "field") };
  const { name = "" } = request.params as { readonly name?: string };
  return { ok: true, query: query.data, body: body?.data, name };
}

/** Uses the messages of the original API where they exist. */
function describeIssue({ issues: [issue] }: z.ZodError, what: "query parameter" | "field"): string {
  if (issue?.code === "unrecognized_keys") return `unknown ${what} ${issue.keys.join(", ")}`.slice(0, 512);
  const name = issue?.path.map(String).join(".") ?? "";
  if (name === "model")
    return what === "field" ? "model field is required" : "model query parameter is required";
  const where = name === "" ? "request body" : `${name} value`;
  if (issue?.code === "invalid_value") return `invalid ${where}: use ${issue.values.map(String).join("|")}`;
  return `invalid ${where}: ${issue?.message ?? "cannot be read"}`;
}

function answerOf(
  { density, clock }: AppOptions,
  route: RestRoute,
  { query, body, name }: Extract<Read, { ok: true }>,
): RouteResult {
  return route.answer({ density, now: momentOf(clock), query, body, name });
}

/** Watches have separate limits. A HEAD request is not a watch, because it has no body. */
function isWatch({ method, query, headers, routeOptions }: FastifyRequest): boolean {
  const { isRoute = false } = routeOptions.config as { readonly isRoute?: boolean };
  const { watch } = query as Record<string, unknown>;
  const wantsEvents = watch === "true" || (headers.accept ?? "").includes("text/event-stream");
  return isRoute && method === "GET" && wantsEvents;
}

function send(
  encode: Encode,
  { headers, method }: FastifyRequest,
  reply: FastifyReply,
  answer: RouteResult,
): FastifyReply {
  if (answer.status !== 200) return plain(reply, answer.status, answer.text);
  const { chunks, bytes, tag, release } = encode(answer);
  reply.raw.once("close", release);
  reply.header("content-type", "application/json; charset=utf-8");
  if (method !== "POST") {
    reply.header("etag", tag).header("cache-control", "no-cache");
    const known = (headers["if-none-match"] ?? "").split(",").map((one) => one.trim());
    if (known.includes(tag) || known.includes("*")) return reply.code(304).send();
  }
  return reply.header("content-length", bytes).send(Readable.from(chunks));
}

function refuseError(
  { log }: AppOptions,
  error: Error & { readonly statusCode?: number },
  reply: FastifyReply,
) {
  const { statusCode = 500 } = error;
  if (statusCode >= 500) log.error({ err: error }, "a request failed");
  return plain(reply, statusCode, statusCode >= 500 ? "internal error" : error.message);
}

function plain(reply: FastifyReply, status: number, text: string): FastifyReply {
  return reply.code(status).type("text/plain; charset=utf-8").send(`${text}\n`);
}
