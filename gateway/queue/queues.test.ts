import { expect, test } from "vitest";
import { exampleModel } from "../testing/example-model.ts";
import { manualClock } from "../testing/manual-clock.ts";
import { Queues } from "./queues.ts";
import { reportQueues } from "./report.ts";

const model = exampleModel(["a"]);

function rig(slots = 1) {
  const clock = manualClock();
  const queues = new Queues(clock);
  queues.update(model.key, { ...model, slots }, 1);
  const acquire = (id: string, flow = "key", person?: string) =>
    queues.acquire(model, id, {
      share: { flow, weight: 1, priority: 0, person },
      affinity: undefined,
      deadlineMs: clock.monotonicMs() + 60_000,
      signal: new AbortController().signal,
    });
  return { clock, queues, acquire };
}

test("the end of a request frees its slot once, whatever its id says later", async () => {
  const { queues, acquire } = rig();
  expect(await acquire("1")).toMatchObject({ at: "assigned" });
  const second = acquire("2");
  expect(queues.release("1", { hasFailed: false })).toBe(true);
  expect(queues.release("1", { hasFailed: false })).toBe(false);
  expect(await second).toMatchObject({ at: "assigned" });
  expect(queues.inFlight).toBe(1);
});

test("a slot whose request was lost with its Envoy is freed after hours", async () => {
  const { clock, queues, acquire } = rig();
  await acquire("1");
  clock.advance(4 * 3_600_000);
  queues.releaseLost();
  expect(queues.inFlight).toBe(1);
  clock.advance(1);
  queues.releaseLost();
  expect(queues.inFlight).toBe(0);
});

test("old requests that Envoy no longer has lose their slots, the oldest first, and never more than it lacks", async () => {
  const { clock, queues, acquire } = rig(4);
  for (const id of ["1", "2", "3"]) {
    await acquire(id);
    clock.advance(3_000);
  }
  expect(queues.hasOld()).toBe(false);
  clock.advance(1_001);
  expect(queues.hasOld()).toBe(true);
  expect(queues.releaseBeyond(new Map([[model.key, 3]]))).toEqual([]);
  await acquire("4");
  // The last one is on its way to Envoy, and the third one is not old enough to be sure.
  expect(queues.releaseBeyond(new Map())).toEqual(["1"]);
  expect(queues.inFlight).toBe(3);
});

test("whoever waits for a slot whose end was lost gets it before its wait of 30 s ends", async () => {
  const { clock, queues, acquire } = rig();
  await acquire("lost");
  const waiting = acquire("next");
  clock.advance(10_001);
  expect(queues.hasOld()).toBe(true);
  queues.releaseBeyond(new Map());
  expect(await waiting).toMatchObject({ at: "assigned" });
});

test("an Envoy that exited frees all slots, and a deleted model refuses what waits", async () => {
  const { queues, acquire } = rig();
  await acquire("1");
  const second = acquire("2");
  queues.releaseAll();
  expect(await second).toMatchObject({ at: "assigned" });
  const third = acquire("3");
  queues.update(model.key, undefined, 1);
  expect(await third).toEqual({ at: "off" });
});

test("the report has slots, waits and the next position of each key, and no people", async () => {
  const { clock, queues, acquire } = rig();
  expect(reportQueues(queues)).toEqual({
    queues: [
      {
        ...{ service: model.key, waiting: 0, longestWaitSeconds: 0 },
        slots: { used: 0, total: 1 },
        keys: [],
      },
    ],
  });
  await acquire("1", "many");
  for (const id of ["2", "3", "4"]) void acquire(id, "many", "ann");
  clock.advance(1_500);
  void acquire("5", "one");
  clock.advance(250);
  const { queues: [report] = [] } = reportQueues(queues);
  expect(report).toEqual({
    ...{ service: model.key, waiting: 4, longestWaitSeconds: 1.8, slots: { used: 1, total: 1 } },
    keys: [
      { key: "one", waiting: 1, position: 1, longestWaitSeconds: 0.3 },
      { key: "many", waiting: 3, position: 2, longestWaitSeconds: 1.8 },
    ],
  });
  expect(JSON.stringify(report)).not.toContain("ann");
});
