import { PassThrough } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createBodyReader } from "./bodies.ts";

const LIMITS = { eachBytes: 20_000, allBytes: 40_000 };

/** For what was written to be read. */
async function settle(): Promise<void> {
  for (let turns = 0; turns < 4; turns += 1) await turn();
}

const bodies = fc.array(fc.array(fc.integer({ min: 1, max: 15_000 }), { minLength: 1, maxLength: 4 }), {
  minLength: 1,
  maxLength: 12,
});

test("the memory for concurrent bodies is limited, and a small body is still read", async () => {
  await fc.assert(
    fc.asyncProperty(bodies, async (given) => {
      const read = createBodyReader(LIMITS);
      const keptBytes = new Map<PassThrough, number>();
      const results = given.map((_, index) => {
        const stream = new PassThrough();
        const result = read(stream).catch(() => "cut off");
        keptBytes.set(stream, 0);
        void result.then(() => keptBytes.delete(stream));
        return { stream, result, chunks: given[index] ?? [] };
      });
      const writes = [0, 1, 2, 3].flatMap((round) =>
        results.map(({ stream, chunks }) => ({ stream, bytes: chunks[round] ?? 0 })),
      );
      for (const { stream, bytes } of writes) {
        const before = keptBytes.get(stream);
        if (before === undefined) continue;
        keptBytes.set(stream, before + bytes);
        stream.write("x".repeat(bytes));
        await settle();
        const total = [...keptBytes.values()].reduce((sum, one) => sum + one, 0);
        expect(total).toBeLessThanOrEqual(LIMITS.allBytes);
      }
      const small = new PassThrough();
      small.end("small");
      expect(await read(small)).toBe("small");
      for (const { stream } of results) stream.end();
      for (const { result, chunks } of results) {
        const length = chunks.reduce((sum, one) => sum + one, 0);
        expect(["cut off", undefined, "x".repeat(length)]).toContain(await result);
      }
    }),
    { numRuns: 50 },
  );
});

test("a body is read up to its own limit", async () => {
  const read = createBodyReader(LIMITS);
  for (const [bytes, expected] of [
    [LIMITS.eachBytes, LIMITS.eachBytes],
    [LIMITS.eachBytes + 1, undefined],
  ] as const) {
    const stream = new PassThrough();
    stream.end("x".repeat(bytes));
    expect((await read(stream))?.length).toBe(expected);
  }
});

test("chunks of one byte count as the memory that they take", async () => {
  const read = createBodyReader({ eachBytes: 20_000, allBytes: 10_000 });
  const stream = new PassThrough();
  const result = read(stream).catch(() => "cut off");
  for (let sent = 0; sent < 50 && !stream.destroyed; sent += 1) {
    stream.write("x");
    await turn();
    await turn();
  }
  expect(await result).toBe("cut off");
});
