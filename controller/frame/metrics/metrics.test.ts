import { expect, test } from "vitest";
import type { Host } from "../../../src/api/host.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import type { InferenceService } from "../../../src/api/inference-service/index.ts";
import { createHistogram } from "../../../src/http/metrics/histogram.ts";
import { createSteppedClock } from "../../../test/controller/stepped-clock.ts";
import { problemsOf } from "../../../test/metrics/conventions.ts";
import { type ParsedFamily, parseExposition } from "../../../test/metrics/exposition.ts";
import type { LeaderFacts } from "./facts.ts";
import { controllerMetrics } from "./families.ts";
import { createControllerMetrics } from "./metrics.ts";

function service(name: string, status: object): InferenceService {
  return { metadata: { name, namespace: "default" }, status } as unknown as InferenceService;
}

function host(name: string, conditions: Record<string, string>, spec: object = {}): Host {
  const list = Object.entries(conditions).map(([type, status]) => ({ type, status }));
  const memory = { claimedBytes: 5, gpuBudgetBytes: 10 };
  return {
    metadata: { name },
    spec: { unschedulable: false, drain: false, memory: {}, ...spec },
    status: { conditions: list, memory },
  } as unknown as Host;
}

function replica(phase: string, reachable: string): InferenceReplica {
  return {
    metadata: { name: `${phase}-${reachable}` },
    status: { phase, conditions: [{ type: "HostReachable", status: reachable }] },
  } as unknown as InferenceReplica;
}

const awaited = { type: "Reachable", status: "Unknown", reason: "HostNeverSeen" };
const leader: LeaderFacts = {
  services: [
    service("chat", {
      phase: "Ready",
      desiredReplicas: 2,
      readyReplicas: 1,
      updatedReplicas: 1,
      conditions: [{ type: "Progressing", status: "False", reason: "RolloutStopped" }],
    }),
    service("big", { phase: "WaitingForCapacity", queuePosition: 1 }),
    service("new", {}),
  ],
  replicas: [replica("Ready", "True"), replica("Ready", "False"), replica("Backoff", "True")],
  hosts: [
    host("mac-1", { Ready: "True", Reachable: "False", "example.com/Own": "True" }),
    host("mac-2", { Ready: "Unknown" }, { drain: true }),
    { ...host("mac-3", {}), status: { conditions: [awaited] } } as unknown as Host,
  ],
  watches: [
    { kind: "hosts", ageMs: 2_000, interruptions: 1 },
    { kind: "models", ageMs: undefined, interruptions: 0 },
  ],
  waiting: { hosts: 1, pods: 3 },
  depths: { services: 2, hosts: 0 },
  podSpeeds: [20, 10].map((tokensPerSecond) => ({
    model: "hf://org/repo",
    backend: "vllm",
    node: "gpu-1",
    tokensPerSecond,
  })),
  podLoads: [
    {
      labels: { model: "hf://org/repo", backend: "vllm", node: "gpu-1", phase: "start" },
      histogram: createHistogram([10]),
    },
  ],
};

async function scrape(of: LeaderFacts | "standby" = leader) {
  const facts = of === "standby" ? undefined : of;
  const metrics = createControllerMetrics(createSteppedClock());
  metrics.setLeading(facts !== undefined);
  metrics.countAnswer("PATCH", 409);
  metrics.countAnswer("WATCH", 0);
  await metrics.pass("services", async () => undefined);
  metrics.watch(facts === undefined ? undefined : () => facts);
  return parseExposition(metrics.text());
}

function ones(family: ParsedFamily | undefined): readonly string[] {
  return (family?.samples ?? [])
    .filter(({ value }) => value === 1)
    .map(({ labels }) => Object.values(labels).join(" "));
}

test("a leader exports every family in the correct format with its declared labels", async () => {
  const shown = await scrape();
  expect([...shown.keys()]).toEqual(controllerMetrics.map(({ name }) => name));
  for (const { name, labels = [], type } of controllerMetrics) {
    const family = shown.get(name);
    expect(family, name).toMatchObject({ type });
    expect(family?.samples.length, name).toBeGreaterThan(0);
    for (const sample of family?.samples ?? []) {
      const { le: _, ...own } = sample.labels;
      expect(Object.keys(own).sort(), name).toEqual([...labels].sort());
    }
  }
});

test("names, units and help texts follow the conventions", () => {
  expect(controllerMetrics.flatMap(problemsOf)).toEqual([]);
});

test("a controller that does not lead exports only its own metrics", async () => {
  const shown = await scrape("standby");
  expect(shown.get("metalbridge_controller_leading")?.samples).toMatchObject([{ value: 0 }]);
  for (const name of [
    "metalbridge_service_phase",
    "metalbridge_host_condition",
    "metalbridge_controller_replicas",
  ])
    expect(shown.get(name)?.samples, name).toEqual([]);
});

test("exactly one state of conditions, phases and rollouts is 1, and unknown conditions are not exported", async () => {
  const shown = await scrape();
  expect(ones(shown.get("metalbridge_host_condition"))).toEqual([
    "mac-1 Ready True",
    "mac-1 Reachable False",
    "mac-2 Ready Unknown",
  ]);
  expect(ones(shown.get("metalbridge_host_joined"))).toEqual(["mac-1", "mac-2"]);
  expect(ones(shown.get("metalbridge_service_phase"))).toEqual([
    "default chat Ready",
    "default big WaitingForCapacity",
    "default new Pending",
  ]);
  expect(ones(shown.get("metalbridge_service_rollout"))).toEqual(["default chat stopped"]);
  expect(ones(shown.get("metalbridge_host_unschedulable"))).toEqual(["mac-2"]);
  expect(ones(shown.get("metalbridge_controller_replicas"))).toEqual([
    "Ready true",
    "Ready false",
    "Backoff true",
  ]);
});

test("an object that was removed from the caches has no series", async () => {
  const metrics = createControllerMetrics(createSteppedClock());
  let now = leader;
  metrics.watch(() => now);
  expect(metrics.text()).toContain('service="chat"');
  now = { ...leader, services: leader.services.slice(1), hosts: [] };
  const after = metrics.text();
  expect(after).not.toContain('service="chat"');
  expect(after).not.toContain('host="mac-1"');
});

test("a failed pass is counted and still rejects", async () => {
  const clock = createSteppedClock();
  const metrics = createControllerMetrics(clock);
  await expect(
    metrics.pass("hosts", async () => {
      clock.advance(2_000);
      throw new Error("no");
    }),
  ).rejects.toThrow("no");
  const shown = parseExposition(metrics.text());
  expect(shown.get("metalbridge_controller_reconcile_errors_total")?.samples).toMatchObject([
    { labels: { queue: "hosts" }, value: 1 },
  ]);
  const durations = shown.get("metalbridge_controller_reconcile_duration_seconds")?.samples ?? [];
  expect(durations.find(({ labels }) => labels.le === "1.0")?.value).toBe(0);
  expect(durations.find(({ labels }) => labels.le === "5.0")?.value).toBe(1);
});

test("moves by live eviction are counted by result, from zero", async () => {
  const metrics = createControllerMetrics(createSteppedClock());
  metrics.countMove("Moved");
  metrics.countMove("Blocked");
  metrics.countMove("Blocked");
  const moves = parseExposition(metrics.text()).get("metalbridge_controller_moves_total");
  expect(moves?.samples.map(({ labels, value }) => [labels.result, value])).toEqual([
    ["Moved", 1],
    ["GivenUp", 0],
    ["Blocked", 2],
  ]);
});
