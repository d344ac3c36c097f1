/** Bodies as clients send them, in any pieces: what is held of them, and where each limit is. */
import { EventEmitter } from "node:events";
import type { IncomingMessage } from "node:http";
import fc from "fast-check";
import { expect, test } from "vitest";
import { BodyBudget } from "./budget.ts";
import { readRequestBody } from "./read.ts";
import { withoutLoadOptions } from "./rewrite-model.ts";
import { detectTinyChunks } from "./tiny-chunks.ts";

const naming = {
  keys: ["model"],
  model: "hf.co/org/model:Q4",
  accepts: (name: string) => name === "chat",
  overrides: { options: withoutLoadOptions },
};

/** The status of the refusal, or the length of what is sent on; and the most that was held. */
function read(body: Buffer, cuts: readonly number[], limitBytes: number, headers: object = {}) {
  const request = Object.assign(new EventEmitter(), { headers }) as unknown as IncomingMessage;
  const budget = new BodyBudget();
  const share = budget.open("route");
  let result: string | undefined;
  readRequestBody(request, { limitBytes, share, naming }, (answer) => {
    expect(result).toBeUndefined();
    result = "reason" in answer ? `${answer.status} ${answer.reason}` : Buffer.concat(answer).toString();
  });
  const ends = [...cuts.map((cut) => cut % (body.length + 1)), body.length].sort((a, b) => a - b);
  for (const [index, end] of ends.entries()) request.emit("data", body.subarray(ends[index - 1] ?? 0, end));
  request.emit("end");
  return { result, heldBytes: budget.bytes };
}

const cuts = fc.array(fc.nat(), { maxLength: 8 });

test("a body is refused exactly where it is larger than the limit, and no more of it is held than that", () => {
  fc.assert(
    fc.property(fc.nat(9_000), fc.nat(9_000), cuts, fc.boolean(), (length, limit, ends, isAnnounced) => {
      const body = Buffer.from(`{"p":"${"x".repeat(length)}"}`);
      const headers = isAnnounced ? { "content-length": String(body.length) } : {};
      const { result, heldBytes } = read(body, ends, limit, headers);
      if (body.length > limit) expect(result).toBe("413 too_large");
      else expect(JSON.parse(result ?? "")).toEqual({ model: naming.model, p: "x".repeat(length) });
      // Blocks grow with what is held: the last one is at most as large as all before it, or 4 KiB.
      expect(heldBytes).toBeLessThanOrEqual(limit + Math.max(limit, 4_096));
      if (isAnnounced && body.length > limit) expect(heldBytes).toBe(0);
    }),
    { numRuns: 300 },
  );
});

const repeated = (count: number, text: string) => text.repeat(count);

test.each<[string, number, (count: number) => string]>([
  ["members", 256, (count) => `{${Array.from({ length: count }, (_, at) => `"${at}":1`).join()}}`],
  ["bytes of a name and its quotes", 1_024, (count) => `{"${repeated(count - 2, "n")}":1}`],
  ["digits", 1_024, (count) => `{"n":${repeated(count, "1")}}`],
  ["levels", 500, (count) => `{"n":${repeated(count, "[")}${repeated(count, "]")}}`],
  ["bytes of options and their quotes", 64 * 1024, (count) => `{"options":"${repeated(count - 2, "x")}"}`],
])("more %s than %i are refused, however the body is cut", (_, limit, bodyWith) => {
  fc.assert(
    fc.property(fc.integer({ min: -3, max: 3 }), cuts, (more, ends) => {
      const { result } = read(Buffer.from(bodyWith(limit + more)), ends, 1024 ** 2);
      expect(result?.startsWith("400 not_json")).toBe(more > 0);
    }),
    { numRuns: 40 },
  );
});

test("a body is refused for its pieces exactly where there are more than 4,096, of less than 16 bytes on average", () => {
  const bytes = Buffer.alloc(64);
  fc.assert(
    fc.property(fc.array(fc.nat(40), { minLength: 1, maxLength: 6 }), (sizes) => {
      const areCrumbs = detectTinyChunks();
      let sum = 0;
      for (let pieces = 1; pieces <= 4_200; pieces += 1) {
        const size = sizes[pieces % sizes.length] ?? 0;
        sum += size;
        if (areCrumbs(bytes.subarray(0, size)) !== (pieces > 4_096 && sum / pieces < 16))
          expect.fail(`${pieces} pieces of ${sum} bytes`);
      }
    }),
    { numRuns: 60 },
  );
});
