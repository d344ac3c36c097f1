import { Readable } from "node:stream";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type Handler,
  headerBytes,
  ranged,
  serveModel,
  TENSOR_BYTES,
} from "../../test/fixtures/model-server.ts";
import type { SourceResponse } from "./client.ts";
import { failureOf, inspectNow } from "./fixtures/inspect.ts";
import { readRemoteHeader } from "./inspect/gguf-header.ts";

const small = headerBytes(10);
const large = headerBytes(100_000);
/** The start of a header with an array that has more items than the test reads. */
const endless = Buffer.alloc(8 << 20);
endless.write("GGUF\x03");
for (const [at, value] of [
  [16, 1],
  [24, 1],
  [33, 9],
  [41, 10_000_000],
] as const)
  endless.writeUInt32LE(value, at);
const { signal } = new AbortController();

const status =
  (code: number, headers = {}): Handler =>
  (_, response) =>
    void response.writeHead(code, headers).end("no");

test.each<[string, Handler, string, boolean]>([
  ["401", status(401), "SourceUnauthorized", false],
  ["403", status(403), "SourceForbidden", false],
  ["404", status(404), "SourceNotFound", false],
  ["400", status(400), "SourceRefused", false],
  ["429", status(429, { "retry-after": "7" }), "SourceUnavailable", true],
  ["503", status(503), "SourceUnavailable", true],
  [
    "zero bytes",
    (_, response) => void response.writeHead(200, { "content-length": 0 }).end(),
    "SourceEmpty",
    false,
  ],
  ["zero bytes and ranges", ranged(new Uint8Array(0)), "SourceEmpty", false],
  [
    "HTML",
    (_, response) => void response.end("<!doctype html><title>Log in</title>"),
    "SourceIsNotAModel",
    false,
  ],
  ["other bytes", ranged(new Uint8Array(5000).fill(7)), "GgufBadMagic", false],
  ["silence", () => undefined, "SourceStalled", true],
  [
    "silence in the body",
    (_, response) => void response.writeHead(200, { "content-length": 9999 }).write("GGUF"),
    "SourceStalled",
    true,
  ],
  [
    "a drop in the body",
    (_, response) =>
      void response.writeHead(200, { "content-length": 9999 }).write("GGUF", () => response.destroy()),
    "SourceTruncated",
    true,
  ],
  ["a reset", (request) => void request.socket.destroy(), "SourceUnreachable", true],
  ["a redirect to nowhere", status(302), "SourceRedirects", false],
  ["a redirect to a file", status(302, { location: "file:///etc/passwd" }), "SourceNotAllowed", false],
  [
    "a redirect to metadata",
    status(302, { location: "http://169.254.169.254/latest" }),
    "SourceNotAllowed",
    false,
  ],
  ["a redirect loop", status(302, { location: "/m.gguf" }), "SourceRedirects", false],
  [
    "endless redirects",
    (request, response) => void response.writeHead(302, { location: `${request.url}x` }).end(),
    "SourceRedirects",
    false,
  ],
])("a server that answers with %s is refused with its own code", async (name, handler, code, isTransient) => {
  const server = await serveModel(handler);
  const config = name.startsWith("silence") ? { stallMs: 300 } : {};
  const failure = await failureOf(inspectNow(`${server.url}/m.gguf?token=geheim`, {}, config));
  expect(failure).toMatchObject({ code, isTransient });
  expect(failure.message).not.toContain("geheim");
});

test("a file that ends inside its header, or before its tensors do, is truncated", async () => {
  const inside = await serveModel(ranged(large.subarray(0, 300_000)));
  expect(await failureOf(inspectNow(`${inside.url}/m.gguf`))).toMatchObject({
    code: "GgufTruncated",
    isTransient: false,
  });
  const before = await serveModel(ranged(small, small.length + 10));
  expect(await failureOf(inspectNow(`${before.url}/m.gguf`))).toMatchObject({
    code: "GgufTruncated",
    message: expect.stringContaining("describes"),
  });
});

test("a header without an end is refused", async () => {
  const server = await serveModel(ranged(large, 1 << 30));
  expect(await failureOf(inspectNow(`${server.url}/m.gguf`, {}, { maxHeaderBytes: 500_000 }))).toMatchObject({
    code: "GgufTooLarge",
  });
});

test("at most the limit and one chunk of a header are read, for any response to a range request", async () => {
  const url = new URL("http://source.test/m.gguf");
  const sending = fc.record({
    chunkBytes: fc.integer({ min: 20_000, max: 200_000 }),
    /** Number of bytes sent beyond the requested range. */
    moreBytes: fc.nat(2_000_000),
    hasRanges: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(
      sending,
      fc.nat(1_200_000),
      async ({ chunkBytes, moreBytes, hasRanges }, maxHeaderBytes) => {
        let readBytes = 0;
        const open = async (_: URL, { headers = {} }: { headers?: Readonly<Record<string, string>> }) => {
          const [from = 0, to = 0] = headers.range?.match(/\d+/g)?.map(Number) ?? [];
          const end = hasRanges ? to + 1 + moreBytes : Number.POSITIVE_INFINITY;
          const chunks = function* () {
            for (let at = hasRanges ? from : 0; at < end; at += chunkBytes) {
              readBytes += chunkBytes;
              yield endless.subarray(at, at + chunkBytes);
            }
          };
          const body = Readable.from(chunks(), { highWaterMark: 1 });
          const answerHeaders = { etag: '"v1"', "content-range": `bytes ${from}-${end - 1}/*` };
          return {
            url,
            status: hasRanges ? 206 : 200,
            headers: answerHeaders,
            hops: [],
            body,
          } as unknown as SourceResponse;
        };
        const reading = readRemoteHeader({ open }, url, { signal, maxHeaderBytes });
        expect((await failureOf(reading)).code).toBe("GgufTooLarge");
        // The limit is detected in one chunk, and the next one may already be in flight.
        expect(readBytes).toBeLessThanOrEqual(maxHeaderBytes + 2 * chunkBytes);
      },
    ),
    { numRuns: 50 },
  );
});

test("a file that changes between two ranges is read again", async () => {
  let version = 0;
  const server = await serveModel((request, response) =>
    ranged(large, large.length + TENSOR_BYTES, `"${version++}"`)(request, response),
  );
  expect(await failureOf(inspectNow(`${server.url}/m.gguf`))).toMatchObject({
    code: "SourceChanged",
    isTransient: true,
  });
});

test("a read of slowly arriving bytes ends at the deadline", async () => {
  const server = await serveModel((_, response) => {
    response.writeHead(200, { "content-length": small.length });
    let at = 0;
    const timer = setInterval(() => response.write(small.subarray(at, ++at)), 100);
    response.once("close", () => clearInterval(timer));
  });
  expect(await failureOf(inspectNow(`${server.url}/m.gguf`, {}, { inspectMs: 500 }))).toMatchObject({
    code: "SourceStalled",
    isTransient: true,
  });
});

test("a closed port and an unknown host name are unreachable", async () => {
  expect(await failureOf(inspectNow("http://127.0.0.1:1/m.gguf"))).toMatchObject({
    code: "SourceUnreachable",
    isTransient: true,
  });
  expect(await failureOf(inspectNow("http://does-not-exist.invalid/m.gguf"))).toMatchObject({
    code: "SourceUnreachable",
    isTransient: true,
  });
});

test("loopback is refused by address and by name unless allowed", async () => {
  const server = await serveModel(ranged(small));
  const named = server.url.replace("127.0.0.1", "localhost");
  for (const url of [server.url, named]) {
    expect(await failureOf(inspectNow(`${url}/m.gguf`, {}, { allowLoopback: false }))).toMatchObject({
      code: "SourceNotAllowed",
    });
  }
  expect(server.requests).toHaveLength(0);
});
