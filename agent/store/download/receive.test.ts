import fc from "fast-check";
import { expect, test } from "vitest";
import { countBlocks } from "./receive.ts";

const ADMIT_BYTES = 64 << 20;

test("a download reserves disk space at least every 64 MiB, for any block size and announced length", async () => {
  const blocks = fc.array(fc.integer({ min: 1, max: 40 << 20 }), { maxLength: 30, size: "max" });
  const total = fc.option(fc.integer({ min: 0, max: 2 ** 40 }), { nil: undefined });
  await fc.assert(
    fc.asyncProperty(blocks, total, fc.nat(2 ** 30), async (sizes, totalBytes, startsAt) => {
      let unasked = 0;
      let received = 0;
      const asked: number[] = [];
      const count = countBlocks(
        { startsAt, totalBytes },
        { onProgress: () => undefined, admit: async (bytes) => void asked.push(bytes) },
      );
      for (const size of sizes) {
        await count(size);
        received += size;
        unasked = asked.length > 0 ? 0 : unasked + size;
        expect(unasked).toBeLessThan(ADMIT_BYTES);
        const needed = totalBytes === undefined ? 0 : totalBytes - startsAt - received;
        expect(asked.splice(0).every((bytes) => bytes === needed)).toBe(true);
      }
    }),
  );
});

test("a download ends at the first block for which there is no disk space", async () => {
  const full = new Error("full");
  const count = countBlocks(
    { startsAt: 0, totalBytes: undefined },
    { onProgress: () => undefined, admit: () => Promise.reject(full) },
  );
  await count(ADMIT_BYTES - 1);
  await expect(count(1)).rejects.toBe(full);
});
