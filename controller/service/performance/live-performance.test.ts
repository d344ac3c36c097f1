import { expect, onTestFinished, test } from "vitest";
import type { Performance } from "../../../src/api/fields/performance.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { createGroupings, isOnlyPerformance, type Watches } from "../../watches/watches.ts";
import { startLivePerformance } from "./live-performance.ts";

function replicaWith(performance: Performance, phase = "Ready"): InferenceReplica {
  return {
    metadata: { namespace: "a", name: "chat-0", uid: "r", resourceVersion: `${performance.tokensPerSecond}` },
    spec: { template: { serviceName: "chat", serviceUid: "s", hostName: "m" } },
    status: { phase, conditions: [{ type: "HostReachable", status: "True" }], performance },
  } as InferenceReplica;
}

test("a change of live performance plans a pass only when the status of the service has to be written", () => {
  const groupings = createGroupings();
  let service = { metadata: { namespace: "a", name: "chat", uid: "s" } } as InferenceService;
  const watches = {
    ...groupings,
    services: { get: () => service },
    pods: { list: () => [] },
  } as unknown as Watches;
  let now = 0;
  const clock: Clock = { nowMs: () => 0, monotonicMs: () => now, after: () => () => {} };
  const end = new AbortController();
  onTestFinished(() => end.abort());
  let planned: number[] = [];
  const onChange = (_: string, afterMs: number) => planned.push(afterMs);
  const live = startLivePerformance({ watches, clock, signal: end.signal, onChange });
  const plannedAfter = (atMs: number, tokensPerSecond: number) => {
    now = atMs;
    planned = [];
    groupings.ofService.replicas.note("a/chat-0", replicaWith({ tokensPerSecond }), undefined);
    live.compare(["a/chat"]);
    return planned;
  };
  expect(plannedAfter(0, 20)).toEqual([0]);
  service = { ...service, status: { performance: { tokensPerSecond: 20 } } } as InferenceService;
  expect(plannedAfter(10_000, 21)).toEqual([]);
  expect(plannedAfter(20_000, 40)).toEqual([10_000]);
  expect(plannedAfter(30_000, 40)).toEqual([0]);
});

test.each<[string, InferenceReplica, InferenceReplica | undefined, boolean]>([
  ["another speed", replicaWith({ tokensPerSecond: 2 }), replicaWith({ tokensPerSecond: 1 }), true],
  ["another phase too", replicaWith({ tokensPerSecond: 2 }, "Draining"), replicaWith({}), false],
  ["nothing", replicaWith({ tokensPerSecond: 2 }), replicaWith({ tokensPerSecond: 2 }), false],
  ["a new replica", replicaWith({ tokensPerSecond: 2 }), undefined, false],
])("is only performance: %s", (_, after, before, expected) => {
  expect(isOnlyPerformance(after, before)).toBe(expected);
});
