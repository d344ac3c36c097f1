import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import { expect, test } from "vitest";
import type { EngineTarget } from "../driver/engine.ts";
import { probeHealth, probeLive, probeRequest, readProgress } from "./probe.ts";

/** A server that answers as an engine does which is slow, busy or another one. */
async function answering(listener: RequestListener) {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  const target: EngineTarget = { host: "127.0.0.1", port, mode: "chat", modelAlias: "chat" };
  return {
    target,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

test("a health probe uses the service's timeout, longer or shorter than the default", async () => {
  await using slow = await answering((_request, response) => {
    setTimeout(() => response.end("{}"), 2_300);
  });
  expect(await probeHealth(slow.target, { timeoutMs: 15_000 })).toBe("healthy");
  expect(await probeHealth(slow.target, { timeoutMs: 100 })).toEqual({
    unhealthy: "no answer within 100 ms",
  });
});

const GAUGES = "llamacpp:requests_processing 1\nllamacpp:requests_deferred 2\nllamacpp:n_decode_total 7\n";

test("a live probe sends one request if the gauges suffice", async () => {
  const asked: string[] = [];
  await using engine = await answering((request, response) => {
    asked.push(request.url ?? "");
    response.end(GAUGES);
  });
  expect(await probeLive(engine.target, { timeoutMs: 10_000 })).toEqual({
    health: "healthy",
    progress: { inFlight: 3, decodeTotal: 7, tokensTotal: 0 },
  });
  expect(asked).toEqual(["/metrics"]);
});

test("a live probe reports tokens generated and time taken, even when progress is unknown", async () => {
  const time = "llamacpp:tokens_predicted_total 30\nllamacpp:tokens_predicted_seconds_total 1.5\n";
  const older = "llamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n";
  for (const gauges of [GAUGES, older]) {
    await using engine = await answering((_, response) => response.end(gauges + time));
    expect(await probeLive(engine.target, { timeoutMs: 10_000 })).toMatchObject({
      generated: { tokens: 30, seconds: 1.5 },
    });
  }
});

test("a live probe reports unknown progress if decode steps are not counted", async () => {
  await using older = await answering((_request, response) => {
    response.end(
      "llamacpp:requests_processing 1\nllamacpp:requests_deferred 0\nllamacpp:prompt_tokens_total 7\n",
    );
  });
  expect(await probeLive(older.target, { timeoutMs: 10_000 })).toEqual({
    health: "healthy",
    progress: "unknown",
  });
});

test.each<[string, (response: ServerResponse) => unknown, number]>([
  ["are refused", (response) => response.writeHead(401).end("{}"), 10_000],
  ["are not there", (response) => response.writeHead(501).end("{}"), 10_000],
  ["are half an answer", (response) => response.end("llamacpp:requests_processing 1\n"), 10_000],
])(
  "a live probe requests /health if the gauges %s, and reports unknown progress",
  async (_name, answer, timeoutMs) => {
    await using engine = await answering((request, response) => {
      if (request.url === "/metrics") answer(response);
      else response.end('{"status":"ok"}');
    });
    expect(await probeLive(engine.target, { timeoutMs })).toEqual({
      health: "healthy",
      progress: "unknown",
    });
  },
);

test("a live probe requests /health if the gauges do not arrive, and reports that they are late", async () => {
  await using engine = await answering((request, response) => {
    if (request.url === "/health") response.end('{"status":"ok"}');
  });
  // Two seconds of it go by before /health is asked.
  expect(await probeLive(engine.target, { timeoutMs: 30_000 })).toEqual({
    health: "healthy",
    progress: "late",
  });
});

test("a request for progress waits until its timeout, or until its signal aborts", async () => {
  const { signal } = new AbortController();
  await using slow = await answering((_request, response) => {
    setTimeout(() => response.end(GAUGES), 2_300);
  });
  const progress = { inFlight: 3, decodeTotal: 7, tokensTotal: 0 };
  expect(await readProgress(slow.target, { timeoutMs: 60_000, signal })).toEqual(progress);
  expect(await readProgress(slow.target, { timeoutMs: 50, signal })).toBe("unknown");

  const ending = new AbortController();
  await using silent = await answering(() => ending.abort());
  expect(await readProgress(silent.target, { timeoutMs: 600_000, signal: ending.signal })).toBe("unknown");
});

test("a real request names the service's model, and stops when its signal is aborted", async () => {
  const ending = new AbortController();
  const asked: unknown[] = [];
  await using silent = await answering((request, response) => {
    if (request.url === "/v1/models") response.end(JSON.stringify({ data: [{ id: "chat" }] }));
    else
      request.on("data", (body: Buffer) => {
        asked.push(JSON.parse(body.toString()));
        ending.abort();
      });
  });
  const answer = probeRequest(silent.target, { timeoutMs: 600_000, signal: ending.signal });
  expect(await answer).toMatchObject({ failed: expect.any(String) });
  expect(asked).toMatchObject([{ model: "chat", max_tokens: 1 }]);
});

test("a live probe of an engine that does not answer fails at its timeout", async () => {
  await using engine = await answering(() => undefined);
  expect(await probeLive(engine.target, { timeoutMs: 400 })).toMatchObject({ progress: "late" });
});

test("a real request waits until its timeout", async () => {
  await using silent = await answering((request, response) => {
    if (request.url === "/v1/models") response.end(JSON.stringify({ data: [{ id: "chat" }] }));
  });
  expect(await probeRequest(silent.target, { timeoutMs: 100 })).toEqual({
    failed: "no answer within 100 ms",
  });
});

test("a server that answers under another name is not taken for the engine", async () => {
  await using stranger = await answering((_request, response) =>
    response.end(JSON.stringify({ data: [{ id: "other" }], choices: [] })),
  );
  expect(await probeRequest(stranger.target)).toEqual({
    failed: `port ${stranger.target.port} is answered by a server of other, not of chat`,
  });
});
