import { expect, onTestFinished, test, vi } from "vitest";
import type { Performance } from "../../../src/api/fields/performance.ts";
import { ANNOTATION_IN_FLIGHT, LABEL_SERVICE, LABEL_SERVICE_UID, PORT_NAME } from "../../../src/api/group.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import type { Pod } from "../../../src/kube/workload-objects.ts";
import type { Clock } from "../../../src/util/ports.ts";
import { serveHttp } from "../../../test/bed/http-server.ts";
import { observeService } from "../../frame/owned/observe.ts";
import { createGroupings, isOnlyPerformance, type Watches } from "../../frame/watches/watches.ts";
import { requestsOf } from "../../options/external-metrics/api.ts";
import { startLivePerformance } from "./live-performance.ts";

/** Long, because the machine may be busy. */
const WAIT = { timeout: 60_000, interval: 10 };

function replicaWith(performance: Performance, phase = "Ready"): InferenceReplica {
  return {
    metadata: { namespace: "a", name: "chat-0", uid: "r", resourceVersion: `${performance.tokensPerSecond}` },
    spec: { template: { runtime: "llamacpp", serviceName: "chat", serviceUid: "s", hostName: "m" } },
    status: {
      phase,
      conditions: [{ type: "HostReachable", status: "True" }],
      performance: { requestsInFlight: 1, ...performance },
    },
  } as InferenceReplica;
}

function podOf(port: number, index: number): Pod {
  return {
    metadata: {
      namespace: "a",
      name: `chat-${index}`,
      uid: `pod-${index}`,
      labels: { [LABEL_SERVICE]: "chat", [LABEL_SERVICE_UID]: "s" },
      annotations: { [ANNOTATION_IN_FLIGHT]: `/metrics/${index} vllm:num_requests_running` },
    },
    spec: { containers: [{ name: "engine", image: "i", ports: [{ name: PORT_NAME, containerPort: port }] }] },
    status: { podIP: "127.0.0.1", conditions: [{ type: "Ready", status: "True" }] },
  } as Pod;
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
  const live = startLivePerformance({ watches, clock, signal: end.signal, onChange, onUse: () => {} });
  const plannedAfter = (atMs: number, tokensPerSecond: number) => {
    now = atMs;
    planned = [];
    groupings.ofService.replicas.note("a/chat-0", replicaWith({ tokensPerSecond }), undefined);
    live.compare(["a/chat"]);
    return planned;
  };
  expect(plannedAfter(0, 20)).toEqual([0]);
  service = {
    ...service,
    status: { performance: { tokensPerSecond: 20, requestsInFlight: 1 } },
  } as InferenceService;
  expect(plannedAfter(10_000, 21)).toEqual([]);
  expect(plannedAfter(20_000, 40)).toEqual([10_000]);
  expect(plannedAfter(30_000, 40)).toEqual([0]);
});

test("the requests of a service are unknown as long as one of its ready pods cannot be read", async () => {
  let answers: (string | undefined)[] = [];
  await using engine = await serveHttp(({ url = "" }, response) => {
    const [, index = "0"] = /(\d)$/.exec(url) ?? [];
    const load = answers[Number(index)];
    response.statusCode = load === undefined ? 503 : 200;
    response.end(`vllm:num_requests_running ${load}\n`);
  });
  const { port } = engine;
  const groupings = createGroupings();
  const service = { metadata: { namespace: "a", name: "chat", uid: "s" } } as InferenceService;
  let pods = [podOf(port, 0)];
  const watches = { ...groupings, services: { get: () => service }, pods: { list: () => pods } };
  for (const pod of pods) groupings.podsOfService.note(pod.metadata.name, pod, undefined);
  let now = 0;
  let alarm: (() => void) | undefined;
  const after: Clock["after"] = (_, fire) => {
    alarm = fire;
    return () => {};
  };
  const end = new AbortController();
  onTestFinished(() => end.abort());
  const clock = { nowMs: () => 0, monotonicMs: () => now, after };
  const options = { clock, signal: end.signal, onChange: () => {}, onUse: () => {} };
  const live = startLivePerformance({ ...options, watches: watches as unknown as Watches });
  const requestsAfter = async (...next: (string | undefined)[]) => {
    await vi.waitFor(() => expect(alarm).toBeDefined(), WAIT);
    const fire = alarm;
    alarm = undefined;
    answers = next;
    now += 30_000;
    fire?.();
    await vi.waitFor(() => expect(alarm).toBeDefined(), WAIT);
    const { own } = observeService(watches as unknown as Watches, "a/chat");
    const { performance } = live.update({ key: "a/chat", service, own });
    return requestsOf({
      ...service,
      spec: { replicas: 1 },
      status: { readyReplicas: 1, performance },
    } as never);
  };
  expect(await requestsAfter(undefined)).toBeUndefined();
  expect(await requestsAfter("4")).toBe(4);
  expect(await requestsAfter("4")).toBe(4);
  pods = [...pods, podOf(port, 1)];
  for (const pod of pods) groupings.podsOfService.note(pod.metadata.name, pod, undefined);
  expect(await requestsAfter("4", undefined)).toBeUndefined();
  expect(await requestsAfter("4", "3")).toBe(7);
  // A failed reading keeps the last figures for two minutes, which are not zero after that.
  for (let round = 0; round < 4; round += 1) expect(await requestsAfter("4", undefined)).toBe(7);
  expect(await requestsAfter("4", undefined)).toBeUndefined();
  expect(await requestsAfter("4", "3")).toBe(7);
});

test("pods that became ready at a change of leader are unknown until they have been read", () => {
  const groupings = createGroupings();
  const pod = podOf(1, 0);
  groupings.podsOfService.note("a/chat-0", pod, undefined);
  const metadata = { namespace: "a", name: "chat", uid: "s" };
  const clock = { nowMs: () => 0, monotonicMs: () => 0, after: () => () => {} };
  const performanceWith = (status: object) => {
    const service = { metadata, status } as InferenceService;
    const watches = { ...groupings, services: { get: () => service }, pods: { list: () => [] } };
    const end = new AbortController();
    onTestFinished(() => end.abort());
    const options = { clock, signal: end.signal, onChange: () => {}, onUse: () => {} };
    const live = startLivePerformance({ ...options, watches: watches as unknown as Watches });
    const { own } = observeService(watches as unknown as Watches, "a/chat");
    return live.update({ key: "a/chat", service, own }).performance;
  };
  expect(performanceWith({ readyReplicas: 0 })).toEqual({ requestsUnknown: true });
  expect(performanceWith({ readyReplicas: 1 })).toBeUndefined();
  const before = { requestsInFlight: 3 };
  expect(performanceWith({ readyReplicas: 1, performance: before })).toEqual(before);
});

test.each<[string, InferenceReplica, InferenceReplica | undefined, boolean]>([
  ["another speed", replicaWith({ tokensPerSecond: 2 }), replicaWith({ tokensPerSecond: 1 }), true],
  ["another phase too", replicaWith({ tokensPerSecond: 2 }, "Draining"), replicaWith({}), false],
  ["nothing", replicaWith({ tokensPerSecond: 2 }), replicaWith({ tokensPerSecond: 2 }), false],
  ["a new replica", replicaWith({ tokensPerSecond: 2 }), undefined, false],
])("is only performance: %s", (_, after, before, expected) => {
  expect(isOnlyPerformance(after, before)).toBe(expected);
});
