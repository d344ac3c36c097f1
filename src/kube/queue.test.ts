import { setImmediate as turn } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import type { Clock } from "../util/ports.ts";
import { createIdleQueue, createQueue } from "./queue.ts";

/** Time moves only when stepped. */
function steppedClock() {
  let nowMs = 0;
  const waiting = new Set<{ atMs: number; fire: () => void }>();
  const clock: Clock = {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    after: (delayMs, fire) => {
      const entry = { atMs: nowMs + delayMs, fire };
      waiting.add(entry);
      return () => waiting.delete(entry);
    },
  };
  const step = async (byMs: number) => {
    nowMs += byMs;
    for (const entry of [...waiting].sort((a, b) => a.atMs - b.atMs)) {
      if (entry.atMs > nowMs || !waiting.delete(entry)) continue;
      entry.fire();
    }
    for (let turns = 0; turns < 5; turns += 1) await turn();
  };
  return { clock, step, waiting: () => waiting.size };
}

function setUp(
  reconcile: (key: string) => Promise<{ recheckAfterMs?: number } | undefined>,
  concurrency?: number,
) {
  const time = steppedClock();
  const ending = new AbortController();
  const runs: string[] = [];
  const queue = createQueue<string>({
    clock: time.clock,
    log: quietLog,
    signal: ending.signal,
    reconcile: (key) => {
      runs.push(key);
      return reconcile(key);
    },
    concurrency,
  });
  return { ...time, queue, runs, end: () => ending.abort() };
}

describe("the work queue", () => {
  it("keeps keys that arrive before its start, once each and in order", async () => {
    const { clock, step } = steppedClock();
    const runs: string[] = [];
    const queue = createIdleQueue<string>({ clock, log: quietLog, signal: new AbortController().signal });
    for (const key of ["b", "a", "b"]) queue.enqueue(key);
    await step(1_000);
    expect([runs, queue.depth()]).toEqual([[], 2]);
    queue.start(async (key) => void runs.push(key));
    await step(0);
    expect([runs, queue.depth()]).toEqual([["b", "a"], 0]);
  });

  it("retries what a user may have corrected within the error's time, however often it failed before", async () => {
    const { queue, runs, step } = setUp(async () => {
      throw Object.assign(new Error("refused"), { retryWithinMs: 3_000 });
    });
    queue.enqueue("a");
    for (let failures = 0; failures < 12; failures += 1) await step(3_000);
    const before = runs.length;
    await step(3_000);
    expect(runs.length).toBe(before + 1);
  });

  it("spaces out many keys that wait for a correction", async () => {
    const { queue, runs, step } = setUp(async () => {
      throw Object.assign(new Error("refused"), { retryWithinMs: 3_000 });
    }, 1_000);
    for (let key = 0; key < 300; key += 1) queue.enqueue(`key-${key}`);
    for (let failures = 0; failures < 12; failures += 1) await step(60_000);
    const before = runs.length;
    for (let elapsedMs = 0; elapsedMs < 30_000; elapsedMs += 3_000) await step(3_000);
    expect(runs.length - before).toBeLessThanOrEqual(300);
  });

  it("makes one run of a burst, never inside the caller", async () => {
    const { queue, runs, step } = setUp(async () => undefined);
    queue.enqueue("a");
    queue.enqueue("a");
    queue.enqueue("b");
    expect(runs).toEqual([]);
    await step(0);
    expect(runs).toEqual(["a", "b"]);
    expect(queue.size()).toBe(0);
  });

  it("leaves places for other groups when one group has many slow keys", async () => {
    const time = steppedClock();
    const runs: string[] = [];
    const finish = new Map<string, () => void>();
    const queue = createQueue<string>({
      clock: time.clock,
      log: quietLog,
      signal: new AbortController().signal,
      concurrency: 6,
      groups: { of: (key) => key.split("/")[0] ?? "", limit: 2 },
      reconcile: async (key) => {
        runs.push(key);
        await new Promise<void>((resolve) => finish.set(key, resolve));
      },
    });
    for (const key of ["slow/1", "slow/2", "slow/3", "slow/4", "other/1"]) queue.enqueue(key);
    await time.step(0);
    expect(runs).toEqual(["slow/1", "slow/2", "other/1"]);
    finish.get("slow/2")?.();
    await time.step(0);
    expect(runs.slice(3)).toEqual(["slow/3"]);
  });

  it("runs no more of a group than its limit, whatever is asked for and ends", async () => {
    const act = fc.record({ group: fc.nat(3), key: fc.nat(5), ends: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 10 }),
        fc.array(act, { maxLength: 40, size: "max" }),
        async (limit, concurrency, acts) => {
          const time = steppedClock();
          const running = new Map<string, () => void>();
          const stop = new AbortController();
          const groupOf = (key: string) => key.split("/")[0] ?? "";
          const queue = createQueue<string>({
            clock: time.clock,
            log: quietLog,
            signal: stop.signal,
            concurrency,
            groups: { of: groupOf, limit },
            reconcile: async (key) => {
              await new Promise<void>((resolve) => running.set(key, resolve));
              running.delete(key);
            },
          });
          for (const { group, key, ends } of acts) {
            queue.enqueue(`${group}/${key}`);
            if (ends) [...running.values()][key]?.();
            await time.step(0);
            expect(running.size).toBeLessThanOrEqual(concurrency);
            for (const one of running.keys()) {
              const ofGroup = [...running.keys()].filter((other) => groupOf(other) === groupOf(one));
              expect(ofGroup.length).toBeLessThanOrEqual(limit);
            }
          }
          stop.abort();
        },
      ),
      { numRuns: 60 },
    );
  });

  it("finds a place for one more group, however many others have slow keys", async () => {
    const shape = fc.record({
      concurrency: fc.integer({ min: 2, max: 40 }),
      limit: fc.integer({ min: 1, max: 40 }),
      others: fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 19 }),
    });
    await fc.assert(
      fc.asyncProperty(shape, async ({ concurrency, limit, others }) => {
        fc.pre(others.length < concurrency / 2);
        const time = steppedClock();
        const running: string[] = [];
        const stop = new AbortController();
        const queue = createQueue<string>({
          clock: time.clock,
          log: quietLog,
          signal: stop.signal,
          concurrency,
          groups: { of: (key) => key.split("/")[0] ?? "", limit },
          reconcile: (key) => {
            running.push(key);
            return new Promise<void>(() => undefined);
          },
        });
        others.forEach((keys, group) => {
          for (let key = 0; key < keys; key++) queue.enqueue(`${group}/${key}`);
        });
        await time.step(0);
        queue.enqueue("new/1");
        await time.step(0);
        expect(running).toContain("new/1");
        expect(running.length).toBeLessThanOrEqual(concurrency);
        stop.abort();
      }),
      { numRuns: 60 },
    );
  });

  it("runs a key once at a time, and once more for all that came meanwhile; others are not held up", async () => {
    let finish: () => void = () => {};
    const { queue, runs, step } = setUp(async (key) => {
      if (key === "slow") await new Promise<void>((resolve) => (finish = resolve));
      return undefined;
    });
    queue.enqueue("slow");
    await step(0);
    queue.enqueue("slow");
    queue.enqueue("slow");
    queue.enqueueAfter("slow", 5);
    queue.enqueue("b");
    await step(10);
    expect(runs).toEqual(["slow", "b"]);
    finish();
    await step(0);
    expect(runs).toEqual(["slow", "b", "slow"]);
    finish();
    await step(60_000);
    expect(runs).toHaveLength(3);
  });

  it("looks again when asked to; the soonest wins", async () => {
    const responses = [{ recheckAfterMs: 1_000 }];
    const { queue, runs, step, waiting } = setUp(async () => responses.shift());
    queue.enqueue("a");
    await step(0);
    queue.enqueueAfter("a", 5_000);
    await step(999);
    expect(runs).toHaveLength(1);
    await step(1);
    expect(runs).toHaveLength(2);
    await step(10_000);
    expect(runs).toHaveLength(2);
    queue.enqueueAfter("a", 5_000);
    queue.enqueueAfter("a", 100);
    await step(100);
    expect(runs).toHaveLength(3);
    expect([waiting(), queue.size()]).toEqual([0, 0]);
  });

  it("backs off a failing key between 0.5 s and 60 s, and forgets that after a success", async () => {
    let isFailing = true;
    const { queue, runs, step } = setUp(async () => {
      if (isFailing) throw new Error("no");
      return undefined;
    });
    queue.enqueue("a");
    await step(0);
    await step(499);
    expect(runs).toHaveLength(1);
    await step(501);
    expect(runs).toHaveLength(2);
    for (let round = 0; round < 20; round += 1) await step(60_000);
    expect(runs.length).toBeGreaterThanOrEqual(22);
    isFailing = false;
    await step(60_000);
    const before = runs.length;
    await step(600_000);
    expect(runs).toHaveLength(before);
    expect(queue.size()).toBe(0);
  });

  it("waits for as long as a server has said, and somewhat longer", async () => {
    const { queue, runs, step } = setUp(async () => {
      throw Object.assign(new Error("429"), { retryAfterMs: 20_000 });
    });
    queue.enqueue("a");
    await step(0);
    await step(19_999);
    expect(runs).toHaveLength(1);
    await step(10_001);
    expect(runs).toHaveLength(2);
  });

  it("that fails while it was asked again does not run in a circle", async () => {
    const holder: { enqueue?: (key: string) => void } = {};
    const { queue, runs, step } = setUp(async (key) => {
      holder.enqueue?.(key);
      throw new Error("no");
    });
    holder.enqueue = queue.enqueue;
    queue.enqueue("a");
    await step(0);
    await step(0);
    expect(runs).toHaveLength(1);
  });

  it("keeps to its limit, in order of arrival", async () => {
    const finishes: (() => void)[] = [];
    const { queue, runs, step } = setUp(async () => {
      await new Promise<void>((resolve) => finishes.push(resolve));
      return undefined;
    }, 2);
    for (const key of ["a", "b", "c", "d"]) queue.enqueue(key);
    await step(0);
    expect(runs).toEqual(["a", "b"]);
    finishes[0]?.();
    await step(0);
    expect(runs).toEqual(["a", "b", "c"]);
  });

  it("ends with its signal and leaves no timer", async () => {
    const { queue, runs, step, end, waiting } = setUp(async () => ({ recheckAfterMs: 1_000 }));
    queue.enqueue("a");
    await step(0);
    queue.enqueue("b");
    end();
    queue.enqueue("c");
    await step(10_000);
    expect(runs).toEqual(["a"]);
    expect([waiting(), queue.size()]).toEqual([0, 0]);
  });
});
