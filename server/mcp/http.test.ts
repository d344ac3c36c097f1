/** HTTP sessions whose clients disconnect or become idle. */
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { createSessions, type HandleRequest, handleStateless, MAX_SESSIONS, type Sessions } from "./http.ts";

const WAIT = { timeout: 60_000, interval: 20 };
const MINUTE_MS = 60_000;
const accept = "application/json, text/event-stream";

let nowMs = 0;

const build = () => new McpServer({ name: "test", version: "1" }, { capabilities: { tools: {} } });

async function serve(handle: (sessions: Sessions) => RequestListener): Promise<string> {
  const sessions = createSessions(build, { monotonicMs: () => nowMs });
  const server = createServer(handle(sessions)).listen(0, "127.0.0.1");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const handlePost =
  ({ handle }: Sessions): RequestListener =>
  async (request, response) =>
    handle(request, response, request.method === "POST" ? JSON.parse(await text(request)) : undefined);

/** Returns the new session, or the status code of the refusal. */
async function begin(url: string): Promise<string> {
  const params = { protocolVersion: "2025-03-26", capabilities: {}, clientInfo: { name: "c", version: "1" } };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  const headers = { "content-type": "application/json", accept };
  const response = await fetch(url, { method: "POST", headers, body });
  await response.text();
  return response.headers.get("mcp-session-id") ?? String(response.status);
}

const listenTo = (url: string, session: string, signal?: AbortSignal) =>
  fetch(url, { headers: { accept, "mcp-session-id": session }, ...(signal && { signal }) });

test("a client that disconnects before its stream is answered leaves no session open", async () => {
  let leave: () => void = () => {};
  let left = 0;
  const url = await serve((sessions) => async (request, response) => {
    if (request.method === "POST") return handlePost(sessions)(request, response);
    // The client leaves before the request is handled, as can happen while a token is read.
    const closed = once(response, "close");
    leave();
    await closed;
    await sessions.handle(request, response, undefined);
    left += 1;
  });
  for (let count = 1; count <= MAX_SESSIONS; count += 1) {
    const session = await begin(url);
    const leaving = new AbortController();
    leave = () => leaving.abort();
    await expect(listenTo(url, session, leaving.signal)).rejects.toThrow();
    await vi.waitFor(() => expect(left).toBe(count), WAIT);
  }
  expect(await begin(url)).toMatch(/-/);
});

test("if all sessions have a stream, the longest idle one is closed after 30 minutes, and an active one is not", async () => {
  nowMs = 0;
  const url = await serve(handlePost);
  const sessions: string[] = [];
  // An unreferenced body would be closed by the garbage collector.
  const streams: Response[] = [];
  for (let count = 0; count < MAX_SESSIONS; count += 1) {
    nowMs = count;
    const session = await begin(url);
    const stream = await listenTo(url, session);
    expect(stream.status).toBe(200);
    streams.push(stream);
    sessions.push(session);
  }
  nowMs = 29 * MINUTE_MS;
  expect(await begin(url)).toBe("503");
  const [first = "", second = ""] = sessions;
  const ping = async (session: string) => {
    const headers = { "content-type": "application/json", accept, "mcp-session-id": session };
    const body = JSON.stringify({ jsonrpc: "2.0", id: 2, method: "ping" });
    const response = await fetch(url, { method: "POST", headers, body });
    await response.text();
    return response.status;
  };
  expect(await ping(first)).toBe(200);
  nowMs = 31 * MINUTE_MS;
  expect(await begin(url)).toMatch(/-/);
  expect([await ping(first), await ping(second)]).toEqual([200, 404]);
  expect(streams).toHaveLength(MAX_SESSIONS);
});

test.each([
  [
    "one server for each request",
    () =>
      (...call: Parameters<HandleRequest>) =>
        handleStateless(build, ...call),
  ],
  ["sessions", ({ handle }: Sessions) => handle],
])("a batch is refused: %s", async (_, handlerOf) => {
  const url = await serve((sessions) => async (request, response) => {
    await handlerOf(sessions)(request, response, JSON.parse(await text(request)));
  });
  const headers = { "content-type": "application/json", accept };
  const message = fc.oneof(
    fc.record({ jsonrpc: fc.constant("2.0"), id: fc.nat(), method: fc.constantFrom("ping", "tools/call") }),
    fc.jsonValue(),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(message, { maxLength: 4 }), async (batch) => {
      const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(batch) });
      expect([response.status, await response.text()]).toEqual([400, expect.stringContaining("batches")]);
    }),
    { numRuns: 40, examples: [[[]]] },
  );
});
