import { once } from "node:events";
import { connect } from "node:net";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ask } from "../../bed/load/ask.ts";
import { keepAliveAgent } from "../../bed/load/connections.ts";
import { findLlamaServer } from "../../fixtures/llama-server.ts";
import { type RunningServer, runLlamaServer } from "../../fixtures/run-llama-server.ts";
import { temporaryFolder } from "../../fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../../fixtures/tiny-gguf.ts";

const program = findLlamaServer();

describe.skipIf(program === undefined)("a kept connection", () => {
  let server: RunningServer;
  const stack = new AsyncDisposableStack();

  beforeAll(async () => {
    const folder = stack.use(await temporaryFolder());
    const model = join(folder.path, "tiny.gguf");
    await writeTinyGguf(model);
    const args = ["-m", model, "-c", "512", "--threads", "1", "--no-warmup"];
    server = stack.use(await runLlamaServer(program ?? "", args));
  });
  afterAll(() => stack.disposeAsync());

  it("llama-server closes the connection after a streamed response despite keep-alive", async () => {
    const body = JSON.stringify({ messages: [{ role: "user", content: "Hi" }], max_tokens: 4, stream: true });
    const { host, port } = new URL(server.url);
    const socket = connect(Number(port), "127.0.0.1");
    const head = ["POST /v1/chat/completions HTTP/1.1", `Host: ${host}`, "Content-Type: application/json"];
    socket.write([...head, `Content-Length: ${body.length}`, "", body].join("\r\n"));
    let answer = "";
    let hasAskedAgain = false;
    socket.on("data", (chunk: Buffer) => {
      answer += chunk.toString();
      if (hasAskedAgain || !answer.includes("[DONE]")) return;
      hasAskedAgain = true;
      // On a connection that it keeps, llama-server would answer.
      socket.write(`GET /health HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
    });
    // The close may be a reset, because the second request is not read.
    socket.on("error", () => {});
    await once(socket, "close");
    expect(answer.match(/^HTTP\/1\.1 /gm)).toHaveLength(1);
    expect(answer).toContain("Keep-Alive: timeout=5");
    expect(answer).not.toContain("Connection: close");
    expect(answer).toContain("[DONE]");
  });

  it("is left by our clients after a streamed answer, and used again after a plain one", async () => {
    const agent = keepAliveAgent();
    const next = async (isStreamed: boolean) => {
      const answer = await ask({ url: server.url, isStreamed, agent, maxTokens: 4, timeoutMs: 10_000 });
      // Only after its end does the agent have the connection back.
      await turn();
      expect(answer.failure).toBe("");
      return answer.idleMs === undefined ? "fresh" : "kept";
    };
    expect(await next(false)).toBe("fresh");
    expect(await next(true)).toBe("kept");
    expect(await next(false)).toBe("fresh");
    expect(await next(false)).toBe("kept");
    agent.destroy();
  });
});
