/** MCP over streamable HTTP: one server per request, or one per session on a listener of its own, where tools may prompt the user. */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { FastifyError, FastifyInstance, FastifyRequest } from "fastify";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { readBodyText } from "../../src/http/body.ts";
import { rejectUnauthorized } from "../../src/http/listener.ts";
import { isFromProgram, isLoopback } from "../../src/http/loopback.ts";
import { parseJson } from "../../src/util/parse-json.ts";
import type { Clock } from "../../src/util/ports.ts";
import { createHttpApp, listenApp } from "../http/app.ts";
import { createMcp, type McpOptions } from "./server.ts";

export type HandleRequest = (
  request: IncomingMessage,
  response: ServerResponse,
  body: unknown,
) => Promise<void>;

export const MAX_SESSIONS = 64;
/** An open stream alone keeps a session this long. */
const SILENT_STREAM_MS = 30 * 60_000;

/** Keeps no state between requests, so any replica can answer the next one. */
export async function handleStateless(
  build: () => McpServer,
  ...exchange: Parameters<HandleRequest>
): Promise<void> {
  const handle = withoutBatches(async (request, response, body) => {
    const mcp = build();
    const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true });
    response.once("close", () => void mcp.close());
    await mcp.connect(transport as Transport);
    await transport.handleRequest(request, response, body);
  });
  await handle(...exchange);
}

export interface Sessions {
  readonly handle: HandleRequest;
  readonly close: () => Promise<void>;
}

interface Session {
  readonly mcp: McpServer;
  readonly transport: StreamableHTTPServerTransport;
  usedMs: number;
  /** Number of open requests. */
  requests: number;
  /** Number of open streams, which clients open with GET. */
  streams: number;
}

/** Many clients disconnect silently, so a new session replaces the one that has been idle longest if all places are taken. */
export function createSessions(
  build: () => McpServer,
  { monotonicMs }: Pick<Clock, "monotonicMs">,
): Sessions {
  const sessions = new Map<string, Session>();
  const open = async (): Promise<Session | undefined> => {
    if (sessions.size >= MAX_SESSIONS && !(await closeIdle(sessions, monotonicMs()))) return undefined;
    const mcp = build();
    const transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, session),
    });
    const session = { mcp, transport, usedMs: monotonicMs(), requests: 0, streams: 0 };
    transport.onclose = () => void sessions.delete(transport.sessionId ?? "");
    await mcp.connect(transport as Transport);
    return session;
  };
  return {
    handle: withoutBatches(async (request, response, body) => {
      const id = request.headers["mcp-session-id"];
      const session = id === undefined ? await open() : sessions.get(String(id));
      if (session === undefined)
        return id === undefined
          ? sendRpcError(response, 503, "too many sessions")
          : sendRpcError(response, 404, "unknown session");
      // A client that left while its token was read: `close` has been emitted already.
      if (!response.destroyed) {
        const kind = request.method === "GET" ? "streams" : "requests";
        session[kind] += 1;
        response.once("close", () => {
          session[kind] -= 1;
          session.usedMs = monotonicMs();
        });
        await session.transport.handleRequest(request, response, body);
      }
      // The request was not an initialization, so its server is not kept.
      if (session.transport.sessionId === undefined) await session.mcp.close();
    }),
    close: async () => {
      await Promise.all([...sessions.values()].map(({ mcp }) => mcp.close()));
    },
  };
}

/** False if every session has an open request, or a stream and recent use. */
async function closeIdle(sessions: ReadonlyMap<string, Session>, nowMs: number): Promise<boolean> {
  const idle = [...sessions.values()].filter(
    ({ requests, streams, usedMs }) => requests === 0 && (streams === 0 || nowMs - usedMs > SILENT_STREAM_MS),
  );
  const [oldest] = idle.sort((a, b) => a.streams - b.streams || a.usedMs - b.usedMs);
  await oldest?.mcp.close();
  return oldest !== undefined;
}

/** The protocol has no batches since 2025-06-18, and the calls of a batch would all run in the same turn. */
function withoutBatches(handle: HandleRequest): HandleRequest {
  return async (request, response, body) => {
    if (Array.isArray(body))
      return sendRpcError(response, 400, "send one message in each request: batches are not supported");
    await handle(request, response, body);
  };
}

/** Sends a JSON-RPC error, which clients expect. */
function sendRpcError(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ jsonrpc: "2.0", error: { code: -32000, message }, id: null }));
}

/** An app of its own with only this route: for programs of this machine, or for clients with the token. */
export interface ListenMcpOptions extends McpOptions {
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Every request must send the token in this file. Absent: only programs of this machine have access, and no web page. */
  readonly tokenFile?: string | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

const MCP_PATH = "/mcp";
const MAX_BODY_BYTES = 64 * 1024;
const REQUEST_MS = 30_000;
/** An idle connection is kept open for this long. */
const IDLE_MS = 5_000;
/** Streams are silent for long: without probes, a client whose machine is down would keep its session forever. */
const PROBES = { keepAlive: true, keepAliveInitialDelay: 60_000 };
const MAX_CONNECTIONS = 128;

/** Resolves with the port. Rejects with ServerConfigInvalid if other users could connect or create without a token. */
export async function listenMcp(options: ListenMcpOptions): Promise<number> {
  const { address, port, signal, tokenFile, context } = options;
  if (tokenFile === undefined && context.deploy !== undefined)
    throw new MetalbridgeError(
      "ServerConfigInvalid",
      "allowDeploy: every user of this machine could create services with your rights",
      {
        summary: "set the token that clients must send",
        command: "metalbridge mcp --http --allow-deploy --token-file <file>",
      },
    );
  if (tokenFile === undefined && address !== "localhost" && !isLoopback(address))
    throw new MetalbridgeError("ServerConfigInvalid", `address: ${address} can be reached by others`, {
      summary: "set the token that clients must send, or listen on loopback",
      command: "metalbridge mcp --http --token-file <file>",
    });
  const sessions = createSessions(() => createMcp(options), options.clock);
  const app = createMcpApp(sessions, options);
  const listening = await listenApp(app, { address, port });
  const close = () => void Promise.all([sessions.close(), app.close()]);
  if (signal.aborted) close();
  else signal.addEventListener("abort", close, { once: true });
  return listening;
}

function createMcpApp(
  sessions: Sessions,
  { tokenFile, log }: Pick<ListenMcpOptions, "tokenFile" | "log">,
): FastifyInstance {
  const app = createHttpApp({
    requestTimeout: REQUEST_MS,
    keepAliveTimeout: IDLE_MS,
    forceCloseConnections: true,
    server: PROBES,
  });
  app.server.maxConnections = MAX_CONNECTIONS;
  app.removeAllContentTypeParsers();
  // Clients name a content type also where a request has no body, such as a DELETE.
  app.addContentTypeParser("*", async ({ method }: FastifyRequest, payload: IncomingMessage) =>
    method === "POST" ? readJson(payload) : undefined,
  );
  app.addHook("onRequest", async ({ raw }, reply) => {
    const refused = tokenFile === undefined ? undefined : await rejectUnauthorized(raw, reply.raw, tokenFile);
    if (refused !== undefined) throw refusal(refused.status, String(refused.body).trim());
    if (tokenFile === undefined && !isFromProgram(raw.headers))
      throw refusal(403, "only programs on this machine have access");
  });
  app.all(MCP_PATH, async ({ raw, body }, reply) => {
    const isPost = raw.method === "POST";
    if (isPost && body === undefined) throw refusal(400, NOT_JSON);
    await sessions.handle(raw, reply.raw, isPost ? body : undefined);
    return reply.hijack();
  });
  app.setNotFoundHandler(() => {
    throw refusal(404, "not found");
  });
  app.setErrorHandler((error: FastifyError, _, reply) => {
    const { statusCode, message } = error;
    if (statusCode === undefined) log.error({ err: error }, "a request failed");
    if (reply.raw.headersSent) reply.raw.destroy();
    else sendRpcError(reply.raw, statusCode ?? 500, statusCode === undefined ? "internal error" : message);
    return reply.hijack();
  });
  return app;
}

const NOT_JSON = "the body is not JSON";

async function readJson(payload: IncomingMessage): Promise<unknown> {
  const body = await readBodyText(payload, MAX_BODY_BYTES);
  if (body === undefined) throw refusal(413, `a request has at most ${MAX_BODY_BYTES} bytes`);
  const parsed = parseJson(body);
  if (parsed === undefined) throw refusal(400, NOT_JSON);
  return parsed;
}

function refusal(statusCode: number, message: string): Error {
  return Object.assign(new Error(message), { statusCode });
}
