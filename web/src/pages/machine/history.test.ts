import { expect, test } from "vitest";
import type { Host } from "../../../../src/api/host.ts";
import type { InferenceReplica } from "../../../../src/api/inference-replica.ts";
import { hostHistory } from "./history.ts";
import { drainEffect } from "./running.ts";

test("the history of a host has its outages backwards from its present state, newest first", () => {
  const status = {
    reachableChanges: ["2026-11-27T08:00:00Z", "2026-11-27T09:00:00Z", "2026-11-27T09:30:00Z"],
    conditions: [
      {
        type: "Reachable",
        status: "True",
        reason: "HostReachable",
        message: "back",
        lastTransitionTime: "x",
      },
      { type: "Ready", status: "True", reason: "AgentReady", lastTransitionTime: "2026-11-27T07:00:00Z" },
    ],
  } as unknown as Host["status"];
  const replica = {
    metadata: { namespace: "team", name: "chat-0" },
    status: { transitions: [{ at: "2026-11-27T09:10:00Z", phase: "Ready", reason: "Serving" }] },
  } as unknown as InferenceReplica;
  const history = hostHistory({ status }, [replica]);
  expect(history.map(({ subject, state, reason }) => [subject, state.word, reason])).toEqual([
    ["Reachable", "True", "HostReachable"],
    ["team/chat-0", "Ready", "Serving"],
    ["Reachable", "False", ""],
    ["Reachable", "True", ""],
    ["Ready", "True", "AgentReady"],
  ]);
});

test("a drain is announced with its replicas, its longest time and the requests that run", () => {
  const replica = (phase: string, drainSeconds: number, requestsInFlight?: number) =>
    ({
      spec: { drainSeconds },
      status: { phase, performance: { requestsInFlight } },
    }) as unknown as InferenceReplica;
  expect(
    drainEffect([replica("Ready", 30, 1.4), replica("Ready", 5, 0.3), replica("Fetching", 600)]),
  ).toEqual({
    replicas: 3,
    ready: 2,
    maxSeconds: 30,
    requests: 2,
  });
  expect(drainEffect([])).toEqual({ replicas: 0, ready: 0, maxSeconds: 0, requests: 0 });
});
