/** Routes of engines that serve one service alone: all paths and bodies pass as they come, but not without the key. */
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { expect, test } from "vitest";
import { until } from "../../test/bed/until.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { openRaw, post, startPair, statusFor, steppedStream } from "./fixtures/route.ts";

test("every path, query, method and body reaches the engine unchanged, with the client's own credentials", async () => {
  await using pair = await startPair({ protocol: "any" });
  const body = "not json \u0000 at all";
  await post(`${pair.url}/inference//a%2Fb?model=x`, body, { authorization: "Bearer own", cookie: "a=b" });
  await fetch(`${pair.url}/slots/0`, { method: "DELETE" });
  const [first, second] = pair.daemon.received;
  expect(first).toMatchObject({ method: "POST", url: "/inference//a%2Fb?model=x", body });
  expect(first?.headers).toMatchObject({ authorization: "Bearer own", cookie: "a=b" });
  expect(second).toMatchObject({ method: "DELETE", url: "/slots/0", body: "" });
  expect(await statusFor(pair.port, "GET http://elsewhere/x HTTP/1.1\r\nHost: x\r\n\r\n")).toMatch(/^400/);
});

test("the key is required for all requests except GET /health, and the engine gets its own key", async () => {
  await using folder = await temporaryFolder();
  const [keys, own] = [join(folder.path, "keys"), join(folder.path, "own")];
  writeFileSync(keys, "client\n");
  writeFileSync(own, "engine\n");
  await using pair = await startPair({ protocol: "any", keyFiles: [keys] });
  const status = async (path: string, method: string, headers = {}) =>
    (await fetch(pair.url + path, { method, headers })).status;
  const withKey = { authorization: "Bearer client", cookie: "a=b" };
  for (const [path, method] of [
    ["/v1/models", "GET"],
    ["/health", "POST"],
    ["/health/", "GET"],
    ["/x", "OPTIONS"],
  ] as const)
    expect(await status(path, method)).toBe(401);
  expect(pair.daemon.received).toEqual([]);
  expect(await status("/health", "GET")).toBe(200);
  expect(await status("/v1/models", "GET", withKey)).toBe(200);
  pair.server.update({ ...pair.route, target: { ...pair.route.target, keyFile: own } });
  expect(await status("/v1/models", "GET", withKey)).toBe(200);
  // A browser's preflight has no key: the engine itself decides.
  expect(await status("/x", "OPTIONS")).toBe(200);
  expect(pair.daemon.received.map(({ headers }) => [headers.authorization, headers.cookie])).toEqual([
    [undefined, undefined],
    [undefined, undefined],
    ["Bearer engine", undefined],
    [undefined, undefined],
  ]);
});

test("a body of any size is passed as it arrives, and a client that disconnects during it aborts the engine's work", async () => {
  const bodies: { bytes: number; isAborted: boolean }[] = [];
  await using pair = await startPair(
    { protocol: "any", limits: { bodyBytes: 1_000 } },
    (incoming, response) => {
      const body = { bytes: 0, isAborted: false };
      bodies.push(body);
      incoming.on("data", (chunk: Buffer) => {
        body.bytes += chunk.length;
      });
      incoming.on("error", () => {
        body.isAborted = true;
      });
      incoming.once("end", () => response.end("{}"));
    },
  );
  const large = Buffer.alloc(8 * 1024 ** 2);
  const answer = await fetch(`${pair.url}/upload`, { method: "POST", body: large });
  expect([answer.status, bodies[0]]).toEqual([200, { bytes: large.length, isAborted: false }]);
  expect(pair.bodies.bytes).toBe(0);
  const raw = await openRaw(pair.port);
  raw.socket.write("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf");
  await until(() => expect(bodies[1]?.bytes).toBe(4));
  raw.socket.resetAndDestroy();
  await until(() => expect(bodies[1]?.isAborted).toBe(true));
  await until(() => expect(pair.server.status().inFlight).toBe(0));
});

test("a chunked body stays chunked, and an answer streams back before the body is complete", async () => {
  const stream = steppedStream();
  await using pair = await startPair({ protocol: "any" }, stream.listener);
  const next = stream.next();
  const call = request(`${pair.url}/talk`, { method: "POST" });
  call.write("one");
  const answered = once(call, "response");
  const response = await next;
  response.write("early");
  const [answer] = await answered;
  expect(String((await once(answer, "data"))[0])).toBe("early");
  expect(response.req.headers["transfer-encoding"]).toBe("chunked");
  call.end("two");
  response.end();
  await once(answer, "end");
});

test.each([
  ["a length", "Content-Length: ", (body: string) => [String(body.length), body]],
  [
    "chunks",
    "Transfer-Encoding: ",
    (body: string) => ["chunked", `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`],
  ],
] as const)(
  "%s behind a thousand headers is obeyed: a request in the body of another never becomes one of its own",
  async (_, header, framed) => {
    await using folder = await temporaryFolder();
    const keys = join(folder.path, "keys");
    writeFileSync(keys, "client\n");
    await using pair = await startPair({ protocol: "any", keyFiles: [keys] });
    const hidden = "POST /hidden HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n";
    const [value, body] = framed(hidden);
    const head = `GET /health HTTP/1.1\r\nHost: x\r\n${"te:\r\n".repeat(1_500)}${header}${value}\r\n\r\n`;
    expect(await statusFor(pair.port, head + body)).toMatch("200");
    expect((await fetch(`${pair.url}/health`)).status).toBe(200);
    expect(pair.daemon.received.map(({ url, body: got }) => [url, got])).toEqual([
      ["/health", hidden],
      ["/health", ""],
    ]);
  },
);

test("a client that disconnects during its body leaves the engine no open request, also if the answer came first", async () => {
  const closed: Promise<unknown>[] = [];
  await using pair = await startPair({ protocol: "any" }, (incoming, response) => {
    closed.push(new Promise((resolve) => incoming.socket.once("close", resolve)));
    incoming.on("error", () => undefined).resume();
    response.end("early");
  });
  const raw = await openRaw(pair.port);
  raw.socket.write("POST /upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nhalf");
  await until(() => expect(raw.text).toContain("early"));
  await until(() => expect(pair.server.status().inFlight).toBe(0));
  raw.socket.destroy();
  await Promise.all(closed);
});
