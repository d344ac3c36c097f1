import { expect, test } from "vitest";
import { keepLines } from "../test/fixtures/log-lines.ts";
import { createLimits } from "./accounting.ts";
import { manualClock } from "./testing/manual-clock.ts";

function bed() {
  const clock = manualClock();
  const spent = () => ({ today: 0, thisMonth: 0 });
  const { signal } = new AbortController();
  const limits = createLimits({ clock, log: keepLines([]), signal, gateways: () => 1, spent });
  const key = { id: "single", limits: { concurrentRequests: 1 } };
  return { clock, limits, admit: (id: string) => limits.admit(key, id, clock.nowMs()) };
}

test("a client that sends one request after the other is admitted, although the message about the first is late", async () => {
  const { clock, limits, admit } = bed();
  expect((await admit("first")).at).toBe("admitted");
  const second = admit("second");
  clock.advance(40);
  limits.answered("first");
  expect((await second).at).toBe("admitted");
});

test("two requests at a time are refused once no message can be late any more", async () => {
  const { clock, limits, admit } = bed();
  expect((await admit("first")).at).toBe("admitted");
  const second = admit("second");
  // The end of a request of another key changes nothing.
  limits.answered("other");
  await Promise.resolve();
  clock.advance(50);
  expect(await second).toMatchObject({ at: "refused", limit: "concurrentRequests" });
});
