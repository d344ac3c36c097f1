import { appendFileSync, mkdtempSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { rotateLog } from "../../src/supervise/log-rotation.ts";
import { type LogRange, LogReader } from "./log-reader.ts";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(path.join(tmpdir(), "metalbridge-log-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const append = (text: string) => appendFileSync(path.join(dir, "log"), text);
const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, index) => `line ${String(from + index).padStart(6, "0")}\n`).join("");

function textOf(reader: LogReader): string {
  const chunks: Buffer[] = [];
  do chunks.push(...reader.read());
  while (reader.isWaiting);
  return Buffer.concat(chunks).toString("utf8");
}

const readerFrom = (range: LogRange, signal = new AbortController().signal) =>
  LogReader.open(dir, range, signal);

describe("reading on", () => {
  it("the reader reads the end of the rotated file, then the new log", async () => {
    append(numbered(0, 100));
    const reader = await readerFrom("current");
    expect(textOf(reader)).toBe(numbered(0, 100));
    append(numbered(100, 50));
    rotateLog(dir, { maxBytes: 1_000, keep: 3 });
    append(numbered(150, 10));
    expect(textOf(reader)).toBe(numbered(100, 60));
    expect(reader.losses).toBe(0);
  });

  it("handles several rotations between two reads, each of which drops the head beyond the limit", async () => {
    append(numbered(0, 10));
    const reader = await readerFrom("current");
    expect(textOf(reader)).toBe(numbered(0, 10));
    for (let round = 0; round < 3; round += 1) {
      append(numbered(10 + round * 100, 100));
      // More than twice the limit: only its last 588 bytes, 49 lines, are kept.
      rotateLog(dir, { maxBytes: 588, keep: 5 });
    }
    append(numbered(310, 1));
    const kept = [numbered(61, 49), numbered(161, 49), numbered(261, 49), numbered(310, 1)];
    expect(textOf(reader)).toBe(kept.join(""));
    expect(reader.losses).toBe(1);
  });

  it("the reader finds its position in a log of identical lines", async () => {
    const same = "srv  update_slots: all slots are idle\n";
    append(same.repeat(5_000));
    const reader = await readerFrom("current");
    textOf(reader);
    append(same.repeat(7));
    rotateLog(dir, { maxBytes: statSync(path.join(dir, "log")).size - 1, keep: 1 });
    append(same.repeat(2));
    expect(textOf(reader)).toBe(same.repeat(9));
  });

  it("the reader detects a rotation after which the log has grown beyond the old offset", async () => {
    append(numbered(0, 20));
    const reader = await readerFrom("current");
    textOf(reader);
    rotateLog(dir, { maxBytes: 200, keep: 2 });
    append(numbered(20, 200));
    expect(textOf(reader)).toBe(numbered(20, 200));
  });

  it("counts a truncation without a copy as a loss, and continues", async () => {
    append(numbered(0, 100));
    const reader = await readerFrom("current");
    textOf(reader);
    rotateLog(dir, { maxBytes: 10, keep: 0 });
    append(numbered(100, 1));
    expect(textOf(reader)).toBe(numbered(100, 1));
    expect(reader.losses).toBe(1);
  });

  it("waits for a copy that is still being put into place", async () => {
    append(numbered(0, 100));
    const reader = await readerFrom("current");
    textOf(reader);
    writeFileSync(path.join(dir, "log.tmp"), numbered(0, 102));
    writeFileSync(path.join(dir, "log"), numbered(102, 1));
    expect([...reader.read()]).toEqual([]);
    expect(reader.isWaiting).toBe(true);
    renameSync(path.join(dir, "log.tmp"), path.join(dir, "log.1"));
    expect(textOf(reader)).toBe(numbered(100, 3));
    expect(reader.losses).toBe(0);
  });

  it("starts with the engine's first line if the log is empty at first", async () => {
    const reader = await readerFrom("current");
    expect(textOf(reader)).toBe("");
    append("first\n");
    expect(textOf(reader)).toBe("first\n");
  });

  const operation = fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({ do: fc.constant("append" as const), lines: fc.integer({ min: 1, max: 60 }) }),
    },
    { weight: 2, arbitrary: fc.constant({ do: "rotate" as const }) },
    { weight: 3, arbitrary: fc.constant({ do: "read" as const }) },
  );

  it("never repeats a line, never swaps two, and misses none that the rotation has kept", async () => {
    const run = fc.record({
      operations: fc.array(operation, { maxLength: 40 }),
      keep: fc.integer({ min: 1, max: 4 }),
      maxBytes: fc.integer({ min: 100, max: 1_500 }),
    });
    const check = async (input: Run) => {
      const { read, written, isWhole } = await play(input);
      const lines = [...read.matchAll(/^line (\d{6})$/gm)].map(([, number]) => Number(number));
      expect(lines).toEqual([...new Set(lines)].sort((a, b) => a - b));
      if (isWhole) expect(read).toBe(numbered(0, written));
    };
    await fc.assert(fc.asyncProperty(run, check), { numRuns: 300, seed: 20_260_301 });
  });
});

interface Run {
  readonly operations: readonly { readonly do: "append" | "rotate" | "read"; readonly lines?: number }[];
  readonly keep: number;
  readonly maxBytes: number;
}

/** `isWhole`: each rotation kept everything that had not been read yet. */
async function play({ operations, keep, maxBytes }: Run) {
  rmSync(dir, { recursive: true, force: true });
  dir = mkdtempSync(path.join(tmpdir(), "metalbridge-log-"));
  append("");
  const reader = await readerFrom("current");
  let written = 0;
  let read = "";
  let readOfLog = 0;
  let isWhole = true;
  for (const { do: what, lines = 0 } of operations) {
    append(numbered(written, lines));
    written += lines;
    if (what === "read") {
      read += textOf(reader);
      readOfLog = statSync(path.join(dir, "log")).size;
    }
    if (what !== "rotate") continue;
    const { rotated, lostBytes } = rotateLog(dir, { maxBytes, keep });
    isWhole = isWhole && lostBytes <= readOfLog;
    readOfLog = rotated ? 0 : readOfLog;
  }
  return { read: read + textOf(reader), written, isWhole };
}

describe("where reading begins", () => {
  const startText = async (range: LogRange) => textOf(await readerFrom(range));

  beforeEach(() => {
    for (const [from, count] of [
      [0, 30],
      [30, 30],
      [60, 5],
    ] as const) {
      append(numbered(from, count));
      if (from < 60) rotateLog(dir, { maxBytes: 359, keep: 3 });
    }
  });

  // A rotation keeps all of a log that is at most twice as large as its limit.
  it("reading starts with the current file, or with the oldest rotated file", async () => {
    expect(await startText("current")).toBe(numbered(60, 5));
    expect((await startText("all")).length).toBe(360 + 360 + 60);
  });

  it.each([0, 1, 4, 5, 6, 34])("is %d lines before the end, across parts", async (lines) => {
    expect(await startText({ lines })).toBe(numbered(65 - lines, lines));
  });

  it("reading starts with the oldest file if more lines are requested than exist", async () => {
    expect(await startText({ lines: 1_000_000 })).toBe(await startText("all"));
  });

  it("counts a last line without an end", async () => {
    append("half");
    expect(await startText({ lines: 2 })).toBe(`${numbered(64, 1)}half`);
  });

  it("keeps the order of the files if a rotation renames them while the reader is blocked", async () => {
    const chunks = (await readerFrom("all")).read();
    let text = String(chunks.next().value);
    append(numbered(65, 30));
    rotateLog(dir, { maxBytes: 359, keep: 4 });
    append(numbered(95, 1));
    for (const bytes of chunks) text += String(bytes);
    expect(text).toBe(numbered(0, 96));
  });

  it("continues from there through a rotation", async () => {
    const reader = await readerFrom({ lines: 2 });
    rotateLog(dir, { maxBytes: 59, keep: 3 });
    append(numbered(65, 1));
    expect(textOf(reader)).toBe(numbered(63, 3));
  });

  it("lets the event loop turn after each chunk that it searches", async () => {
    const megabytes = 16;
    append("19 bytes of a line.\n".repeat((megabytes * 1024 * 1024) / 20));
    let turns = 0;
    const turn = (): void => {
      turns += 1;
      next = setImmediate(turn);
    };
    let next = setImmediate(turn);
    onTestFinished(() => clearImmediate(next));
    await readerFrom({ lines: 999_999_999 });
    expect(turns).toBeGreaterThanOrEqual(megabytes * 4);
  });

  it("the search stops once the client has disconnected", async () => {
    const leave = new AbortController();
    append("line\n".repeat(1024 * 1024));
    let turns = 0;
    const turn = (): void => {
      turns += 1;
      leave.abort();
      next = setImmediate(turn);
    };
    let next = setImmediate(turn);
    onTestFinished(() => clearImmediate(next));
    await readerFrom({ lines: 999_999_999 }, leave.signal);
    expect(turns).toBeLessThanOrEqual(3);
  });

  it("reading starts with the oldest file if the log rotates during every search", async () => {
    const rotate = (): void => {
      append(numbered(0, 60));
      rotateLog(dir, { maxBytes: 359, keep: 3 });
      next = setImmediate(rotate);
    };
    let next = setImmediate(rotate);
    onTestFinished(() => clearImmediate(next));
    const reader = await readerFrom({ lines: 100_000 });
    clearImmediate(next);
    expect(textOf(reader)).toBe(textOf(await readerFrom("all")));
  });
});
