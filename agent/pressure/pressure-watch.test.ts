import { expect, test, vi } from "vitest";
import type { MemoryReading } from "../../src/macos/host-reader.ts";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { silentLog } from "../store/fixtures/store.ts";
import { createPressureWatch } from "./pressure-watch.ts";

function setup(memory: () => Promise<MemoryReading>) {
  const clock = createSteppedClock();
  const ending = new AbortController();
  let woken = 0;
  const runner = {
    governed: () => ({ engines: [], killedAt: undefined }),
    evict: () => {},
    readmit: () => {},
    enqueueAll: () => {},
    memoryRead: () => {
      woken += 1;
    },
  };
  const watch = createPressureWatch({ reader: { memory }, clock, log: silentLog, signal: ending.signal });
  const start = () => watch.start({ runner, mayEvict: () => true });
  /** The timer of the next reading starts some time after a reading, so one step of the clock may come too early. */
  const readAgainUntil = (count: number) =>
    vi.waitFor(() => {
      if (woken < count) clock.advance(5_000);
      expect(woken).toBe(count);
    }, 60_000);
  return { clock, watch, start, woken: () => woken, readAgainUntil, end: () => ending.abort() };
}

test("every reading wakes the replicas that wait for memory, and carries the time at which it began", async () => {
  let readings = 0;
  let finish = (_: MemoryReading): void => {};
  const { clock, watch, start, woken, end } = setup(
    () =>
      new Promise((resolve) => {
        readings += 1;
        finish = resolve;
      }),
  );
  const began = clock.monotonicMs();
  const started = start();
  const also = watch.read();
  clock.advance(300);
  finish({ pressure: "Normal", availableBytes: 7 });
  await started;
  expect(await also).toMatchObject({ pressure: "Normal", availableBytes: 7 });
  expect((await also).at).toBeLessThan(began + 300);
  expect(watch.latest()).toEqual(await also);
  expect(woken()).toBe(1);
  await vi.waitFor(() => {
    if (readings < 2) clock.advance(5_000);
    expect(readings).toBe(2);
  }, 60_000);
  finish({ pressure: "Normal", availableBytes: 8 });
  await vi.waitFor(() => expect(woken()).toBe(2), 60_000);
  expect(watch.latest()).toMatchObject({ availableBytes: 8 });
  end();
});

test("a failed reading means unknown memory, never the previous figure", async () => {
  let fails = false;
  const { watch, start, end } = setup(async () => {
    if (fails) throw new Error("sysctl is gone");
    return { pressure: "Normal", availableBytes: 7 };
  });
  await start();
  fails = true;
  expect(await watch.read()).toMatchObject({ pressure: "Unknown" });
  expect(watch.latest()?.availableBytes).toBeUndefined();
  end();
});

test("nothing starts before a reading of the memory has succeeded, and no level is known", async () => {
  let pressure: MemoryReading["pressure"] = "Unknown";
  const { watch, start, readAgainUntil, end } = setup(async () => ({ pressure }));
  await start();
  expect(watch.assessment()).toBeUndefined();
  expect(watch.mayStart("a")).toMatchObject({
    at: "held",
    because: expect.stringContaining("not been read"),
  });
  pressure = "Normal";
  await readAgainUntil(2);
  expect(watch.assessment()).toMatchObject({ level: "Normal" });
  pressure = "Unknown";
  await readAgainUntil(3);
  expect(watch.mayStart("a")).toEqual({ at: "yes" });
  end();
});
