/** All bytes of a response body reach the file, even if buffers are freed meanwhile, with constant memory. */
import { createHash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { type FileHandle, open } from "node:fs/promises";
import * as http from "node:http";
import * as https from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { beforeAll, expect, test } from "vitest";
import { selfSigned } from "../../../test/fixtures/self-signed.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { writeResponse } from "./response-writer.ts";

const content = randomBytes(64 << 20);
const digest = createHash("sha256").update(content).digest("hex");
const MAX_GROWTH_BYTES = 32 << 20;
let tls: ReturnType<typeof selfSigned>;

beforeAll(() => {
  tls = selfSigned();
});

/** If `isChunked`, sends pieces of varying sizes, so that a socket read contains several pieces and a piece spans several reads. */
function send(response: http.ServerResponse, isChunked: boolean): void {
  if (!isChunked) response.setHeader("content-length", content.length);
  let at = 0;
  const more = (): void => {
    while (at < content.length) {
      const size = isChunked ? 1 + ((at * 7_919) % 150_000) : 1 << 20;
      const piece = content.subarray(at, at + size);
      at += size;
      if (!response.write(piece)) return void response.once("drain", more);
    }
    response.end();
  };
  more();
}

async function hashOf(file: FileHandle): Promise<string> {
  return createHash("sha256")
    .update(await file.readFile())
    .digest("hex");
}

test.each([
  { scheme: "http", isChunked: false },
  { scheme: "http", isChunked: true },
  { scheme: "https", isChunked: false },
  { scheme: "https", isChunked: true },
] as const)(
  "a body over $scheme (chunked: $isChunked) is written completely, with constant memory",
  async (body) => {
    const { scheme, isChunked } = body;
    await using folder = await temporaryFolder();
    const listener = (_: http.IncomingMessage, response: http.ServerResponse) => send(response, isChunked);
    const server = scheme === "http" ? http.createServer(listener) : https.createServer(tls, listener);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const { get } = scheme === "http" ? http : https;
    const request = get(`${scheme}://127.0.0.1:${port}/`, { agent: false, rejectUnauthorized: false });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    await using file = await open(join(folder.path, "part"), "w+");
    const before = process.memoryUsage().arrayBuffers;
    let most = 0;
    await writeResponse(response, {
      file,
      startsAt: 0,
      onBlock: () => {
        most = Math.max(most, process.memoryUsage().arrayBuffers - before);
      },
    });
    server.close();
    expect(await hashOf(file)).toBe(digest);
    expect(most).toBeLessThan(MAX_GROWTH_BYTES);
  },
);

test("bytes that arrived before the connection broke are written, even if reading was throttled", async () => {
  await using folder = await temporaryFolder();
  const arrived = content.subarray(0, 1_200_000);
  const server = http.createServer((_, response) => {
    response.writeHead(200, { "content-length": content.length });
    response.write(arrived, () => response.socket?.end());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const [response] = (await once(http.get(`http://127.0.0.1:${port}/`), "response")) as [
    http.IncomingMessage,
  ];
  await using file = await open(join(folder.path, "part"), "w+");
  const pace = () => new Promise<void>((resolve) => setTimeout(resolve, 3));
  await expect(
    writeResponse(response, { file, startsAt: 0, pace, onBlock: () => undefined }),
  ).rejects.toThrow();
  server.close();
  expect(arrived.equals(await file.readFile())).toBe(true);
});

test("all pending chunks are written when the connection breaks, even if each of them is throttled", async () => {
  await using folder = await temporaryFolder();
  const arrived = content.subarray(0, 40_000);
  const reading = Promise.withResolvers<void>();
  const server = http.createServer(async (_, response) => {
    response.writeHead(200, { "content-length": content.length });
    for (let from = 0; from < arrived.length; from += 10_000) {
      await new Promise((resolve) => response.write(arrived.subarray(from, from + 10_000), resolve));
      await reading.promise;
      await setImmediate();
    }
    response.socket?.end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const [response] = (await once(http.get(`http://127.0.0.1:${port}/`), "response")) as [
    http.IncomingMessage,
  ];
  const isBroken = once(response, "aborted");
  await using file = await open(join(folder.path, "part"), "w+");
  const pace = async () => {
    reading.resolve();
    await isBroken;
    await setImmediate();
  };
  await expect(
    writeResponse(response, { file, startsAt: 0, pace, onBlock: () => undefined }),
  ).rejects.toThrow();
  server.close();
  expect((await file.readFile()).length).toBe(arrived.length);
});
