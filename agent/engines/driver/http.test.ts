import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { processes } from "../../../test/fixtures/started-llama-server.ts";
import { createLlamaServerDriver } from "../llamacpp/driver.ts";
import { sendEngineRequest } from "./http.ts";
import { quickGet } from "./quick-get.ts";

/** A server that handles each connection with `answer`. */
async function serve(answer: (socket: Socket) => void) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("data", () => answer(socket));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return {
    port: typeof address === "object" && address !== null ? address.port : 0,
    sockets,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

const http = (body: string, type = "text/plain") =>
  `HTTP/1.1 200 OK\r\ncontent-type: ${type}\r\nconnection: close\r\n\r\n${body}`;

/** Only a case that expects a timeout gets a short one: on a busy machine, a real answer takes longer. */
const timeoutOf = (why: string): number => (why === "no answer within 200 ms" ? 200 : 10_000);

describe("a probe of an engine that", () => {
  it.each<[string, (socket: Socket) => void, string]>([
    ["accepts and never answers", () => {}, "no answer within 200 ms"],
    ["stops in the middle of an answer", (socket) => socket.write(http("half")), "no answer within 200 ms"],
    ["closes at once", (socket) => socket.end(), "the connection was closed without an answer"],
    ["speaks no HTTP", (socket) => socket.end("SSH-2.0\r\n"), "Parse Error"],
    ["answers without end", (socket) => socket.end(http("x".repeat(5 << 20))), "the answer is too large"],
  ])("%s fails with a sentence", async (_name, answer, why) => {
    await using server = await serve(answer);
    const reply = await sendEngineRequest({
      host: "127.0.0.1",
      port: server.port,
      path: "/",
      timeoutMs: timeoutOf(why),
    });
    expect(reply).toEqual({ failed: expect.stringContaining(why) });
  });

  it.each<[string, (socket: Socket) => void, string]>([
    ["accepts and never answers", () => {}, "no answer within 200 ms"],
    ["stops in the middle of an answer", (socket) => socket.write(http("half")), "no answer within 200 ms"],
    ["closes at once", (socket) => socket.end(), "the connection was closed without an answer"],
    ["resets", (socket) => socket.resetAndDestroy(), "the connection was closed without an answer"],
    ["speaks no HTTP", (socket) => socket.end("SSH-2.0\r\n"), "the answer is not HTTP"],
    ["answers without end", (socket) => socket.end(http("x".repeat(5 << 20))), "the answer is too large"],
  ])("%s is reported by a short request too", async (_name, answer, why) => {
    await using server = await serve(answer);
    const reply = await quickGet({
      host: "127.0.0.1",
      port: server.port,
      path: "/",
      timeoutMs: timeoutOf(why),
    });
    expect(reply).toEqual({ failed: why });
  });

  it("reads the complete answer and its status on a new connection", async () => {
    const body = "é".repeat(9_000);
    await using server = await serve((socket) => socket.end(http(body).replace("200 OK", "503 Busy")));
    for (let count = 1; count <= 3; count += 1) {
      const reply = await quickGet({ host: "127.0.0.1", port: server.port, path: "/", timeoutMs: 10_000 });
      expect(reply).toEqual({ status: 503, body: expect.stringMatching(/^.{9000,}$/) });
      expect(server.sockets.size).toBe(count);
    }
  });

  it("treats another server on the port as neither healthy nor idle", async () => {
    await using server = await serve((socket) => socket.end(http("<html>hello</html>", "text/html")));
    const driver = createLlamaServerDriver({ paths: [], env: {}, processes });
    const target = { host: "127.0.0.1", port: server.port, mode: "chat" } as const;
    expect(await driver.readWork(target)).toBe("unknown");
    expect(await driver.readContextPerSlot(target)).toBeUndefined();
    expect(await driver.probeRequest(target)).toEqual({ failed: "HTTP 200: <html>hello</html>" });
    expect(await driver.devices()).toEqual([]);
  });

  it("opens a new connection for each probe of a healthy engine", async () => {
    await using server = await serve((socket) => socket.end(http("{}")));
    for (let count = 1; count <= 3; count += 1) {
      await sendEngineRequest({ host: "127.0.0.1", port: server.port, path: "/", timeoutMs: 10_000 });
      expect(server.sockets.size).toBe(count);
    }
  });
});
