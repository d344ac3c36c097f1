/** Each rule fires on a world that breaks it. */
import { expect, test } from "vitest";
import { createRandom } from "../../test/bed/random.ts";
import { GIB, makeHosts } from "./fleet.ts";
import { checkInvariants, checkQueue } from "./invariants.ts";
import type { SimulatedService } from "./services.ts";
import { createWorld, scheduleService, startReplica, type World } from "./world.ts";

/** One host; nothing is decided unless a test asks the scheduler. */
function smallWorld(): { world: World; host: string; budget: number } {
  const [host] = makeHosts(1, createRandom(1));
  if (host?.facts.budget.known !== true) throw new Error("the fleet's hosts know their memory");
  return { world: createWorld([host]), host: host.facts.name, budget: host.facts.budget.bytes };
}

function ask(world: World, name: string, changes: Partial<SimulatedService>): SimulatedService {
  const service: SimulatedService = {
    name,
    priority: "normal",
    model: { source: `https://example.com/${name}.gguf`, runtime: "llamacpp", size: GIB, popularity: 1 },
    bytes: GIB,
    choice: { hosts: [], spread: "Preferred" },
    isEvictable: true,
    createdMs: 0,
    slots: [{ at: "empty" }],
    refusals: [],
    waitingSinceMs: 0,
    attempts: 0,
    isGone: false,
    ...changes,
  };
  world.services.set(name, service);
  scheduleService(world, service, 0);
  return service;
}

test("a host over its budget", () => {
  const { world, host, budget } = smallWorld();
  ask(world, "a", { bytes: budget + 2 });
  startReplica(world, { service: "a", ordinal: 0, host, score: 0, why: "" }, 0);
  expect(() => checkInvariants(world, 0)).toThrow("exceeds its budget");
});

test("a service that waits beside room", () => {
  const { world } = smallWorld();
  ask(world, "a", {});
  expect(() => checkInvariants(world, 0)).toThrow("bytes) waits although mac-0001 has");
});

test("a service that waits for what a lower priority holds, and not for what an equal one holds", () => {
  const { world, host, budget } = smallWorld();
  ask(world, "a", { bytes: budget - 1, priority: "batch" });
  startReplica(world, { service: "a", ordinal: 0, host, score: 0, why: "" }, 0);
  const waits = ask(world, "b", { priority: "batch" });
  checkInvariants(world, 0);
  world.services.set("b", { ...waits, priority: "high" });
  expect(() => checkInvariants(world, 0)).toThrow("runs what it may preempt");
});

test("a service that waits behind a younger one", () => {
  const { world } = smallWorld();
  const [older, younger] = [ask(world, "a", { createdMs: 0 }), ask(world, "b", { createdMs: 1 })];
  checkQueue(world, 0);
  world.services.set("a", { ...older, createdMs: 2 });
  world.services.set("b", younger);
  expect(() => checkQueue(world, 0)).toThrow("b has to wait behind a");
});
