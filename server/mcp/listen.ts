/** `/mcp` on a separate listener: for programs of this machine, or for clients with the token. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { readBodyText } from "../../src/http/body.ts";
import { listenOn, rejectUnauthorized } from "../../src/http/listener.ts";
import { isFromProgram } from "../../src/http/loopback.ts";
import type { Clock, Log } from "../../src/util/ports.ts";
import { createSessions, type Sessions, sendRpcError } from "./http.ts";
import { createMcp, type McpOptions } from "./server.ts";

export interface ListenMcpOptions extends McpOptions {
  readonly address: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Every request must send the token in this file. Absent: only programs of this machine have access, and no web page. */
  readonly tokenFile?: string | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

export const MCP_PATH = "/mcp";
const MAX_BODY_BYTES = 64 * 1024;
const REQUEST_MS = 30_000;
/** Streams are silent for long: without probes, a client whose machine is down would keep its session forever. */
const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelay: 60_000 };
const MAX_CONNECTIONS = 128;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[?::1\]?)$/;

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
  if (tokenFile === undefined && !LOOPBACK.test(address))
    throw new MetalbridgeError("ServerConfigInvalid", `address: ${address} can be reached by others`, {
      summary: "set the token that clients must send, or listen on loopback",
      command: "metalbridge mcp --http --token-file <file>",
    });
  const sessions = createSessions(() => createMcp(options), options.clock);
  const server = createServer({ requestTimeout: REQUEST_MS, ...KEEP_ALIVE }, (request, response) => {
    answer(request, response, sessions, tokenFile).catch((error: unknown) =>
      fail(response, options.log, error),
    );
  });
  server.maxConnections = MAX_CONNECTIONS;
  signal.addEventListener("abort", () => void sessions.close(), { once: true });
  return listenOn(server, { address, port, signal });
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  sessions: Sessions,
  tokenFile: string | undefined,
): Promise<void> {
  const refusal = await refusalOf(request, response, tokenFile);
  if (refusal !== undefined) return sendRpcError(response, refusal.status, refusal.message);
  if (request.method !== "POST") return sessions.handle(request, response, undefined);
  const body = await readBodyText(request, MAX_BODY_BYTES);
  if (body === undefined) return sendRpcError(response, 413, `a request has at most ${MAX_BODY_BYTES} bytes`);
  let message: unknown;
  try {
    message = JSON.parse(body);
  } catch {
    return sendRpcError(response, 400, "the body is not JSON");
  }
  return sessions.handle(request, response, message);
}

async function refusalOf(request: IncomingMessage, response: ServerResponse, tokenFile: string | undefined) {
  if (tokenFile !== undefined) {
    const refused = await rejectUnauthorized(request, response, tokenFile);
    if (refused !== undefined) return { status: refused.status, message: String(refused.body).trim() };
  } else if (!isFromProgram(request.headers))
    return { status: 403, message: "only programs on this machine have access" };
  const path = request.url?.split("?")[0];
  return path === MCP_PATH ? undefined : { status: 404, message: "not found" };
}

function fail(response: ServerResponse, log: Log, error: unknown): void {
  log.error({ err: error }, "a request failed");
  if (response.headersSent) response.destroy();
  else sendRpcError(response, 500, "internal error");
}
