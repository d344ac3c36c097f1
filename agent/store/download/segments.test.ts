import { expect, test } from "vitest";
import { createSegments, type Segment } from "./segments.ts";

const limits = { segmentBytes: 100, aheadBytes: 300 };

function bookOf(totalBytes: number) {
  const first: Segment = { start: 0, at: 0, end: 100 };
  const book = createSegments(first, totalBytes, limits);
  const take = () => {
    const taken = book.take();
    if (typeof taken === "string") throw new Error(taken);
    return taken;
  };
  return { book, first, take };
}

test("ranges are assigned in order, and not farther ahead of the contiguous bytes than allowed", () => {
  const { book, first, take } = bookOf(1_000);
  expect([take(), take()].map(({ start, end }) => [start, end])).toEqual([
    [100, 200],
    [200, 300],
  ]);
  expect(book.take()).toBe("wait");
  first.at = 100;
  book.finish(first);
  expect(book.contiguous()).toBe(100);
  expect(take()).toMatchObject({ start: 300, end: 400 });
});

test("the missing bytes of a returned range are assigned next, and its received bytes are kept", async () => {
  const { book, first, take } = bookOf(250);
  const [second, third] = [take(), take()];
  second.at = 130;
  const change = book.change();
  book.release(second);
  await change;
  for (const whole of [first, third]) {
    whole.at = whole.end;
    book.finish(whole);
  }
  expect(book.contiguous()).toBe(130);
  const rest = take();
  expect(rest).toMatchObject({ start: 130, at: 130, end: 200 });
  expect(book.take()).toBe("wait");
  rest.at = 200;
  book.finish(rest);
  expect([book.take(), book.contiguous()]).toEqual(["done", 250]);
});

test("a connection continues into a range that no other connection has started, and takes over a range without a response", () => {
  const { book, first, take } = bookOf(400);
  expect(book.extend(first, 50)).toBe(100);
  expect(book.extend(first, 100)).toBe(200);
  let wasStopped = false;
  const awaited = take();
  awaited.takeOver = () => {
    wasStopped = true;
  };
  expect(book.extend(first, 200)).toBe(300);
  expect(wasStopped).toBe(true);
  first.at = 300;
  const begun = take();
  begun.takeOver = () => expect.unreachable();
  begun.at = 310;
  expect(book.extend(first, 300)).toBe(300);
  book.release(begun);
  expect(book.extend(first, 300)).toBe(300);
});
