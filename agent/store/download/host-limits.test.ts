import fc from "fast-check";
import { expect, test } from "vitest";
import { createDownloadQueue, createRateLimiter } from "./host-limits.ts";

/** A clock that tests advance. */
function steppedClock() {
  let now = 0;
  const timers = new Set<{ readonly at: number; readonly fire: () => void }>();
  return {
    nowMs: () => now,
    monotonicMs: () => now,
    after: (delayMs: number, fire: () => void) => {
      const timer = { at: now + delayMs, fire };
      timers.add(timer);
      return () => timers.delete(timer);
    },
    step: async (ms: number) => {
      now += ms;
      for (const timer of [...timers]) {
        if (timer.at > now) continue;
        timers.delete(timer);
        timer.fire();
      }
      // Code that awaited the timer continues.
      await new Promise(setImmediate);
    },
    timers,
  };
}

const signal = new AbortController().signal;

test("all readers share the bandwidth evenly, and unused bandwidth is not saved for later", async () => {
  const clock = steppedClock();
  const pace = createRateLimiter(1_000, clock);
  const read: number[] = [];
  const reader = async () => {
    for (;;) {
      await pace(100, signal);
      read.push(clock.monotonicMs());
    }
  };
  void reader();
  void reader();
  for (let ms = 0; ms < 1_000; ms += 10) await clock.step(10);
  expect(read).toEqual([100, 200, 300, 400, 500, 600, 700, 800, 900, 1_000]);

  const later = createRateLimiter(1_000, clock);
  await clock.step(60_000);
  expect(later(4, signal)).toBeUndefined();
  expect(later(4, signal)).toBeInstanceOf(Promise);
});

test("waiting for bandwidth ends when the download is aborted", async () => {
  const clock = steppedClock();
  const pace = createRateLimiter(1, clock);
  const controller = new AbortController();
  const waiting = pace(1_000, controller.signal);
  controller.abort(new Error("replica deleted"));
  await expect(waiting).rejects.toThrow("replica deleted");
  expect(clock.timers.size).toBe(0);
});

test("queued downloads start in order, know their position, and can leave the queue", async () => {
  const queue = createDownloadQueue(2);
  const said: string[] = [];
  const enter = (name: string, of = signal) =>
    queue
      .enter(
        () => ["team"],
        of,
        (before) => said.push(`${name} behind ${before}`),
      )
      .then((leave) => {
        said.push(`${name} starts`);
        return leave;
      });
  const left = new AbortController();
  const [a, b] = [await enter("a"), await enter("b")];
  const gone = enter("c", left.signal);
  const d = enter("d");
  expect(said.splice(0)).toEqual(["a starts", "b starts", "c behind 2", "c behind 2", "d behind 3"]);
  left.abort(new Error("not wanted"));
  await expect(gone).rejects.toThrow("not wanted");
  expect(said.splice(0)).toEqual(["d behind 2"]);
  b();
  const leave = await d;
  expect(said.splice(0)).toEqual(["d starts"]);
  a();
  leave();
  await enter("e");
  expect(said).toEqual(["e starts"]);
  await expect(enter("f", AbortSignal.abort(new Error("late")))).rejects.toThrow("late");
});

test("a tenant with endless downloads leaves half of the slots to tenants without downloads", async () => {
  const queue = createDownloadQueue(4, 2);
  const started: string[] = [];
  const enter = (tenant: string) =>
    queue
      .enter(
        () => [tenant],
        signal,
        () => undefined,
      )
      .then((leave) => {
        started.push(tenant);
        return leave;
      });
  const [leave] = await Promise.all([enter("drip"), enter("drip")]);
  void enter("drip");
  const b = await enter("b");
  void enter("b");
  await enter("c");
  expect(started.splice(0)).toEqual(["drip", "drip", "b", "c"]);
  // Reserved slots are not available to tenants that have a slot.
  b();
  await new Promise(setImmediate);
  expect(started.splice(0)).toEqual(["b"]);
  leave?.();
  await new Promise(setImmediate);
  expect(started).toEqual([]);
  await enter("d");
  expect(started).toEqual(["d"]);
});

test("a queued download that another tenant joins starts at that tenant's position", async () => {
  const queue = createDownloadQueue(4, 2);
  const none = () => undefined;
  const [first] = await Promise.all([1, 2].map(() => queue.enter(() => ["drip"], signal, none)));
  const tenants = ["drip"];
  let hasStarted = false;
  const shared = queue.enter(() => tenants, signal, none);
  void shared.then(() => (hasStarted = true));
  await new Promise(setImmediate);
  expect(hasStarted).toBe(false);
  tenants.push("b");
  queue.reconsider();
  const leave = await shared;
  // The download uses the slot of b, and one reserved slot is left for tenants without a slot.
  let again = false;
  void queue.enter(() => ["b"], signal, none).then(() => (again = true));
  await queue.enter(() => ["c"], signal, none);
  expect(again).toBe(false);
  leave();
  first?.();
  await new Promise(setImmediate);
  expect(again).toBe(true);
});

test("every slot is used for any sequence of arrivals and departures, and reserved slots go in order to tenants without a slot", async () => {
  const step = fc.record({
    what: fc.constantFrom("enter", "enter", "leave", "give up" as const),
    tenant: fc.constantFrom("a", "b", "c", "d"),
    which: fc.nat(),
  });
  const places = fc.integer({ min: 1, max: 6 }).chain((most) => fc.tuple(fc.constant(most), fc.nat(most)));
  await fc.assert(
    fc.asyncProperty(
      places,
      fc.array(step, { maxLength: 40, size: "max" }),
      async ([most, reserved], steps) => {
        const queue = createDownloadQueue(most, reserved);
        const waiting: { readonly tenant: string; readonly giveUp: AbortController }[] = [];
        const running: { readonly tenant: string; readonly leave: () => void }[] = [];
        const placesOf = (tenant: string) => running.filter((one) => one.tenant === tenant).length;
        const start = (entry: (typeof waiting)[number], leave: () => void): void => {
          const { tenant } = entry;
          if (placesOf(tenant) > 0) expect(running.length).toBeLessThan(most - reserved);
          expect(waiting.find((one) => one.tenant === tenant)).toBe(entry);
          waiting.splice(waiting.indexOf(entry), 1);
          running.push({ tenant, leave });
        };
        for (const { what, tenant, which } of steps) {
          if (what === "enter") {
            const entry = { tenant, giveUp: new AbortController() };
            waiting.push(entry);
            const turn = queue.enter(
              () => [tenant],
              entry.giveUp.signal,
              () => undefined,
            );
            turn.then(
              (leave) => start(entry, leave),
              () => waiting.splice(waiting.indexOf(entry), 1),
            );
          } else if (what === "leave") running.splice(which % (running.length || 1), 1)[0]?.leave();
          else waiting[which % (waiting.length || 1)]?.giveUp.abort();
          await new Promise(setImmediate);
          expect(queue.running()).toBe(running.length);
          expect(running.length).toBeLessThanOrEqual(most);
          const free = waiting.filter(
            (one) => running.length < (placesOf(one.tenant) > 0 ? most - reserved : most),
          );
          expect(free).toEqual([]);
        }
      },
    ),
    { numRuns: 200 },
  );
});
