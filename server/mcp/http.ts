/** MCP over streamable HTTP: one server per request, or one per session if tools prompt the user. */
import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import type { Transport } from "@modelcontextprotocol/sdk/shared/transport.js";
import type { Clock } from "../../src/util/ports.ts";

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
export function sendRpcError(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify({ jsonrpc: "2.0", error: { code: -32000, message }, id: null }));
}
