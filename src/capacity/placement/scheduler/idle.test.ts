import { expect, test } from "vitest";
import { PRIORITIES, TURN_PRIORITY, unusedPriority } from "../priority.ts";
import type { Demand, HostClaim, HostFacts } from "../types.ts";
import { createScheduler } from "./scheduler.ts";

const GIB = 1024 ** 3;

const host = (name: string, gib: number): HostFacts => ({
  name,
  labels: {},
  ready: { status: "True" },
  reachable: { status: "True" },
  isLost: false,
  pressures: [],
  runtimes: ["llamacpp"],
  models: [{ source: "hf://org/model" }],
  budget: { known: true, bytes: gib * GIB, basis: "test" },
});

const demand = (service: string, gib: number, rest: Partial<Demand> = {}): Demand => ({
  service,
  ordinal: 0,
  priority: PRIORITIES.normal,
  since: 0,
  runtime: "llamacpp",
  mayPreempt: true,
  memory: { known: true, bytes: gib * GIB },
  speeds: {},
  weights: { source: "hf://org/model" },
  predecessors: [],
  refusals: [],
  choice: { hosts: [], spread: "Preferred" },
  ...rest,
});

const claim = (service: string, gib: number, priority: number): HostClaim => ({
  replica: `${service}-0`,
  service,
  host: "a",
  bytes: gib * GIB,
  eviction: { priority },
});

test("a service that wakes goes to the host that it was unloaded from, before one with more free memory", () => {
  const scheduler = createScheduler();
  for (const name of ["a", "b", "c"]) scheduler.setHost(host(name, name === "b" ? 32 : 64));
  scheduler.setDemands("first", [demand("first", 4)], 0);
  scheduler.setDemands("again", [demand("again", 4, { lastHosts: ["b", "gone"] })], 0);
  scheduler.pass(0);
  const hostOf = (service: string) => scheduler.answers(service, 0).placed[0]?.host;
  expect(hostOf("again")).toBe("b");
  expect(hostOf("first")).not.toBe("b");
});

test("unused replicas are preempted before all others and by every priority, the least recently used first", () => {
  const scheduler = createScheduler();
  scheduler.setHost(host("a", 40));
  scheduler.setClaim(claim("batch", 10, PRIORITIES.batch));
  scheduler.setClaim(claim("newer", 10, unusedPriority(7_000)));
  scheduler.setClaim(claim("older", 10, unusedPriority(6_999)));
  scheduler.setClaim(claim("used", 10, PRIORITIES.normal));
  scheduler.setDemands("one", [demand("one", 8, { priority: PRIORITIES.batch })], 0);
  expect(scheduler.pass(0).preempted.map(({ service }) => service)).toEqual(["older"]);
  scheduler.removeClaim("older-0");
  expect(scheduler.pass(1).placed.map(({ service }) => service)).toEqual(["one"]);
  scheduler.setDemands("two", [demand("two", 10, { priority: PRIORITIES.batch })], 2);
  expect(scheduler.pass(2).preempted.map(({ service }) => service)).toEqual(["newer"]);
});

test("a replica whose turn has finished is preempted for a service that takes turns, after unused ones, and for no other of its class", () => {
  const scheduler = createScheduler();
  scheduler.setHost(host("a", 20));
  const used = claim("used", 10, PRIORITIES.normal);
  scheduler.setClaim({ ...used, eviction: { priority: PRIORITIES.normal, turn: TURN_PRIORITY } });
  scheduler.setClaim(claim("unused", 10, unusedPriority(5)));
  scheduler.setDemands("plain", [demand("plain", 8, { priority: PRIORITIES.batch })], 0);
  expect(scheduler.pass(0).preempted.map(({ service }) => service)).toEqual(["unused"]);
  scheduler.removeClaim("unused-0");
  expect(scheduler.pass(1).placed.map(({ service }) => service)).toEqual(["plain"]);
  scheduler.setDemands("second", [demand("second", 8)], 2);
  expect(scheduler.pass(2).preempted.map(({ service }) => service)).not.toContain("used");
  scheduler.setDemands("waking", [demand("waking", 8, { priority: PRIORITIES.batch, takesTurns: true })], 3);
  expect(scheduler.pass(3).preempted).toMatchObject([{ service: "used", for: "waking/0" }]);
});

test("a replica that is used again before its turn is not preempted, and the service that waits stays queued", () => {
  const scheduler = createScheduler();
  scheduler.setHost(host("a", 10));
  scheduler.setClaim(claim("used", 10, PRIORITIES.normal));
  scheduler.setDemands("one", [demand("one", 8)], 0);
  expect(scheduler.pass(0).preempted).toEqual([]);
  expect(scheduler.answers("one", 0).waiting).toMatchObject([{ code: "NoHostWithMemory", queuePosition: 1 }]);
  scheduler.setClaim(claim("used", 10, unusedPriority(5)));
  expect(scheduler.pass(6).preempted).toMatchObject([{ service: "used", for: "one/0" }]);
});
