/** Requests that the real Envoy refuses itself, and connections without any. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeUnless } from "../../../test/bed/describe-unless.ts";
import { whyNoEnvoy } from "../../../test/bed/envoy.ts";
import { until } from "../../../test/bed/until.ts";
import {
  type Engine,
  type EnvoyBed,
  grant,
  JSON_TYPE,
  startEngine,
  startEnvoyBed,
} from "./fixtures/envoy-bed.ts";

const MIB = 1 << 20;

describeUnless(whyNoEnvoy, "bad input of Envoy", () => {
  let bed: EnvoyBed;
  let engine: Engine;

  beforeAll(async () => {
    bed = await startEnvoyBed({ limits: { maxBodyBytes: 4 * MIB, requestReceiveMs: 1_500 } });
    engine = await startEngine();
    await bed.envoy.apply([{ name: "default/a", endpoints: [engine], slowStartMs: 0 }]);
    bed.decisions.answer = () => grant("default/a");
    await until(async () => expect((await chat({ model: "a" })).status).toBe(200), { everyMs: 10 });
    engine.received.length = 0;
  });

  afterAll(async () => {
    await bed?.[Symbol.asyncDispose]();
    await engine?.[Symbol.asyncDispose]();
  });

  const chat = (
    body: unknown,
    headers: Readonly<Record<string, string>> = {},
    path = "/v1/chat/completions",
  ) => bed.call(path, { body, headers: { ...JSON_TYPE, ...headers } });

  it("refuses large and slow bodies, bad paths and broken HTTP with what to do", async () => {
    const large = await chat({ model: "a", messages: "x".repeat(5 * MIB) }, {}, "/v1/messages");
    expect(large.status).toBe(413);
    expect(JSON.parse(large.text)).toEqual({
      type: "error",
      error: {
        type: "request_too_large",
        message: "The request body is larger than 4 MiB. Send a smaller request.",
      },
    });
    // It is refused long before it has arrived.
    const head = "POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json";
    const huge = await raw(bed.port, `${head}\r\ncontent-length: ${100 * MIB}\r\n\r\n${"x".repeat(5 * MIB)}`);
    expect(huge).toMatch(/^HTTP\/1.1 413 .*"code":"request_too_large"/s);
    const path = await chat({}, {}, "/v1/%2f..%2fchat");
    expect(path).toMatchObject({ status: 400, headers: { "x-should-retry": "false" } });
    const [broken, slow] = await Promise.all([
      raw(bed.port, "NONSENSE\r\n\r\n"),
      raw(
        bed.port,
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{",
      ),
    ]);
    expect(broken).toMatch(/^HTTP\/1.1 400 .*"invalid_request_error"/s);
    expect(slow).toMatch(/^HTTP\/1.1 408 .*"timeout_error"/s);
    expect(engine.received).toEqual([]);
  });

  const head = (path: string, length: number, type = "application/json") =>
    `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: ${type}\r\ncontent-length: ${length}\r\n\r\n`;

  it.each([
    ["/v1/chat/completions", "application/json"],
    ["/v1/audio/transcriptions", "multipart/form-data; boundary=x"],
    ["/s/default/a/v1/messages", "application/json"],
    ["/s/default/a/v1/embeddings", "text/plain"],
  ])("asks by the headers of %s (%s) before it has the body, and limits every body", async (path, type) => {
    bed.decisions.answer = () => ({ status: 401, body: "no key" });
    expect(await raw(bed.port, head(path, 3 * MIB, type))).toMatch(/^HTTP\/1.1 401 .*no key$/s);
    expect(bed.decisions.received.at(-1)).toMatchObject({ path: `/authenticate${path}`, body: "" });
    bed.decisions.answer = () => grant("default/a");
    const large = await raw(bed.port, `${head(path, 6 * MIB, type)}${"x".repeat(5 * MIB)}`);
    expect(large).toMatch(/^HTTP\/1.1 413 .*request_too_large/s);
    expect(engine.received).toEqual([]);
  });

  it("sends no CORS headers, and serves beside ten thousand idle connections", async () => {
    const idle: Socket[] = [];
    // Envoy's queue of new connections is shorter than all of them.
    while (idle.length < 10_000) {
      const sockets = Array.from({ length: 500 }, () => connect(bed.port, "127.0.0.1"));
      idle.push(...sockets);
      await Promise.all(sockets.map((socket) => once(socket, "connect")));
    }
    const { status, headers } = await chat({ model: "a" }, { origin: "https://example.com" });
    for (const socket of idle) socket.destroy();
    expect(status).toBe(200);
    expect(Object.keys(headers).filter((name) => name.startsWith("access-control"))).toEqual([]);
  });
});

/** Everything that arrives on a connection until the other side closes it. */
function raw(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1");
    let received = "";
    socket.on("data", (chunk) => {
      received += chunk.toString();
    });
    // Envoy resets a connection whose request it has refused and not read to its end.
    socket.on("error", (error) => {
      if (received === "") reject(error);
    });
    socket.once("close", () => resolve(received));
    socket.write(text);
  });
}
