import { expect, test } from "vitest";
import type { ServedModel } from "../models/served-model.ts";
import { exampleModel } from "../testing/example-model.ts";
import { manualClock } from "../testing/manual-clock.ts";
import { ModelQueues, reportQueues } from "./queues.ts";

const model = exampleModel(["a", "b"]);

function rig() {
  const clock = manualClock();
  const models = new Map<string, ServedModel>([[model.key, model]]);
  const queues = new ModelQueues({ get: (key) => models.get(key), list: () => models.values() }, clock);
  queues.refresh(model.key);
  const acquire = async (flow = "key", user?: string) =>
    queues.get(model.key)?.acquire({
      share: { flow, weight: 1, priority: 0, user },
      affinity: undefined,
      deadlineMs: clock.monotonicMs() + 60_000,
      signal: new AbortController().signal,
    });
  return { clock, models, queues, acquire };
}

test("a replica gets requests once Envoy has accepted its address, and none after its slice is gone", async () => {
  const { models, queues, acquire } = rig();
  const capacity = () => queues.get(model.key)?.capacity;
  const waiting = acquire();
  expect(capacity()).toBe(0);
  queues.setAccepted(model.key, ["b", "other"]);
  expect(await waiting).toMatchObject({ at: "assigned", addresses: ["b"] });
  queues.setAccepted(model.key, ["a", "b"]);
  expect(capacity()).toBe(2);
  models.set(model.key, exampleModel(["a"]));
  queues.refresh(model.key);
  expect(capacity()).toBe(1);
  queues.setAccepted(model.key, undefined);
  expect(capacity()).toBe(0);
});

test("gateways share the slots of each replica", () => {
  const { models, queues } = rig();
  models.set(model.key, { ...model, slots: 5 });
  queues.setAccepted(model.key, ["a", "b"]);
  expect(queues.get(model.key)?.capacity).toBe(10);
  queues.setGateways(2);
  expect(queues.get(model.key)?.capacity).toBe(6);
});

test("the report has slots, waits and the next position of each key, and no users", async () => {
  const { clock, queues, acquire } = rig();
  queues.setAccepted(model.key, ["a"]);
  expect(reportQueues(queues)).toEqual({
    queues: [
      {
        ...{ service: model.key, waiting: 0, longestWaitSeconds: 0 },
        slots: { used: 0, total: 1 },
        keys: [],
      },
    ],
  });
  await acquire("many");
  for (let index = 0; index < 3; index += 1) void acquire("many", "ann");
  clock.advance(1_500);
  void acquire("one");
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
