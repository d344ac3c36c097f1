import fc from "fast-check";
import { expect, test } from "vitest";
import { startPair } from "./fixtures/route.ts";

const LIMIT = 8 * 1024 ** 2;

test("a daemon's list of models is read up to 8 MiB, and refused beyond it", async () => {
  let bytes = 0;
  const models = JSON.stringify({ object: "list", data: [{ id: "hf.co/org/model:Q4" }, { id: "private" }] });
  await using pair = await startPair({}, (_, response) => void response.end(models.padEnd(bytes)));
  const size = fc.oneof(fc.nat(LIMIT), fc.integer({ min: LIMIT - 2, max: LIMIT + 2 }), fc.nat(2 * LIMIT));
  await fc.assert(
    fc.asyncProperty(size, async (given) => {
      bytes = given;
      const answer = await fetch(`${pair.url}/v1/models`);
      expect(answer.status).toBe(given > LIMIT ? 502 : 200);
      const text = await answer.text();
      expect(text).not.toContain("private");
      if (given <= LIMIT) expect(JSON.parse(text)).toEqual({ object: "list", data: [{ id: "chat" }] });
    }),
    { numRuns: 15 },
  );
});
