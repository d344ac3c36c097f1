import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createLineSplitter } from "./lines.ts";
import { parseWatchEvent } from "./watch-once.ts";

const encode = (text: string) => new TextEncoder().encode(text);

describe("lines of a byte stream", () => {
  it("are the same however the bytes are cut, inside characters too", () => {
    const line = fc
      .string({ unit: "binary", minLength: 1 })
      .filter((text) => !text.includes("\n") && text.trim() !== "");
    fc.assert(
      fc.property(fc.array(line, { maxLength: 5 }), fc.array(fc.nat(12), { minLength: 1 }), (lines, cuts) => {
        const bytes = encode(lines.map((text) => `${text}\n`).join(""));
        const splitter = createLineSplitter(1_000_000);
        const seen: string[] = [];
        for (let from = 0, turn = 0; from < bytes.length; turn += 1) {
          const to = from + 1 + (cuts[turn % cuts.length] ?? 0);
          seen.push(...splitter.push(bytes.subarray(from, to)));
          from = to;
        }
        expect(seen).toEqual(
          lines.map((text) => new TextDecoder("utf8", { ignoreBOM: true }).decode(encode(text))),
        );
      }),
    );
  });

  it("may be huge, in many pieces, without quadratic cost", () => {
    const splitter = createLineSplitter(64 * 1024 * 1024);
    const piece = encode("x".repeat(16 * 1024));
    for (let count = 0; count < 2_000; count += 1) expect(splitter.push(piece)).toEqual([]);
    expect(splitter.push(encode("\n"))[0]?.length).toBe(2_000 * 16 * 1024);
  });

  it("fail exactly where the unfinished line is beyond the limit, so no more is held than the limit and a chunk", () => {
    const chunk = fc
      .array(fc.constantFrom("x", "x", "x", "\n"), { maxLength: 15 })
      .map((bytes) => encode(bytes.join("")));
    fc.assert(
      fc.property(fc.array(chunk, { maxLength: 30, size: "max" }), fc.nat(40), (chunks, limit) => {
        const splitter = createLineSplitter(limit);
        let unfinished = 0;
        for (const bytes of chunks) {
          const from = bytes.lastIndexOf(0x0a) + 1;
          unfinished = from === 0 ? unfinished + bytes.length : bytes.length - from;
          if (unfinished > limit)
            return void expect(() => splitter.push(bytes)).toThrow(`longer than ${limit} bytes`);
          for (const line of splitter.push(bytes))
            expect(line.length).toBeLessThanOrEqual(limit + bytes.length);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("one line of a watch", () => {
  it.each([
    ["not json", "{"],
    ["null", "null"],
    ["an unknown type", '{"type":"SURPRISE","object":{}}'],
    ["an object without a name", '{"type":"ADDED","object":{"metadata":{"resourceVersion":"1"}}}'],
    ["a bookmark without a version", '{"type":"BOOKMARK","object":{"metadata":{}}}'],
    ["a number", "5"],
  ])("is refused when it is %s", (_what, line) => {
    expect(parseWatchEvent(line)).toBeUndefined();
  });

  it("of type ERROR is a failure, 410 among them", () => {
    const status = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" };
    expect(parseWatchEvent(JSON.stringify({ type: "ERROR", object: status }))).toMatchObject({
      type: "ERROR",
      failure: { kind: "gone", reason: "Expired" },
    });
  });
});
