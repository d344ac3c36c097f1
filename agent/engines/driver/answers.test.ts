/** How much of an engine's answer is kept in memory: each way to ask has a limit. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { readResponseLines } from "../ollama/api.ts";
import { sendEngineRequest } from "./http.ts";
import { quickGet } from "./quick-get.ts";

/** With the head of the answer, which quickGet counts too. */
const HEAD_BYTES = 1_024;

test.each([
  ["a request", sendEngineRequest, 4 * 1024 ** 2, 0],
  ["a probe or a gauge", quickGet, 64 * 1024, HEAD_BYTES],
])(
  "the answer to %s is accepted up to the size limit, and rejected beyond it",
  async (_, request, limit, head) => {
    let bytes = 0;
    let isChunked = false;
    const server = createServer((_request, response) => {
      if (!isChunked) response.setHeader("content-length", bytes);
      response.end("x".repeat(bytes));
    }).listen(0, "127.0.0.1");
    onTestFinished(() => void server.close());
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const size = fc.oneof(fc.nat(limit - head), fc.integer({ min: limit + 1, max: 3 * limit }));
    await fc.assert(
      fc.asyncProperty(size, fc.boolean(), async (given, chunked) => {
        [bytes, isChunked] = [given, chunked];
        const answer = await request({ host: "127.0.0.1", port, path: "/", timeoutMs: 30_000 });
        if (given > limit) expect(answer).toEqual({ failed: "the answer is too large" });
        else expect(answer).toMatchObject({ status: 200 });
      }),
      { numRuns: 20 },
    );
  },
);

test("a line of a streamed answer is accepted up to 1 MiB", async () => {
  const LIMIT = 1024 ** 2;
  const lengths = fc.array(fc.oneof(fc.nat(5_000), fc.integer({ min: 1, max: 2 * LIMIT })), { maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(lengths, fc.integer({ min: 1_000, max: 65_536 }), async (given, piece) => {
      const text = given.map((length) => `${"x".repeat(length)}\n`).join("");
      const pieces = Array.from({ length: Math.ceil(text.length / piece) }, (_, index) =>
        Buffer.from(text.slice(index * piece, (index + 1) * piece)),
      );
      const read = async () => {
        const lines: number[] = [];
        for await (const line of readResponseLines(Readable.from(pieces, { objectMode: false })))
          lines.push(line.length);
        return lines;
      };
      // A line that one piece completes is in memory already.
      if (given.every((length) => length <= LIMIT)) expect(await read()).toEqual([...given, 0]);
      else if (given.some((length) => length > LIMIT + piece))
        await expect(read()).rejects.toThrow("too long");
    }),
    { numRuns: 30 },
  );
});
