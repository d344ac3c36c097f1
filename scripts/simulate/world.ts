/** State of the simulated day, kept apart from the scheduler so that one can be checked against the other. */

import { EARNED_MS, PRIORITIES } from "../../src/capacity/placement/priority.ts";
import { createScheduler, type Scheduler } from "../../src/capacity/placement/scheduler/scheduler.ts";
import type { HostClaim, HostFacts, Placed, Preemption } from "../../src/capacity/placement/types.ts";
import { GIB, type SimulatedHost } from "./fleet.ts";
import { demandsOf, type SimulatedService } from "./services.ts";

export interface SimulatedReplica {
  readonly service: SimulatedService;
  readonly ordinal: number;
  claim: HostClaim;
}

export interface World {
  readonly scheduler: Scheduler;
  readonly hosts: Map<string, SimulatedHost>;
  readonly services: Map<string, SimulatedService>;
  readonly replicas: Map<string, SimulatedReplica>;
  readonly onHost: Map<string, Set<string>>;
}

const STORED_MODELS = 12;

export function createWorld(hosts: readonly SimulatedHost[]): World {
  const world: World = {
    scheduler: createScheduler(),
    hosts: new Map(hosts.map((host) => [host.facts.name, host])),
    services: new Map(),
    replicas: new Map(),
    onHost: new Map(hosts.map(({ facts }) => [facts.name, new Set<string>()])),
  };
  for (const { facts } of hosts) world.scheduler.setHost(facts);
  return world;
}

export function changeHost(world: World, name: string, change: Partial<HostFacts>): void {
  const host = world.hosts.get(name);
  if (host === undefined) return;
  const facts = { ...host.facts, ...change };
  world.hosts.set(name, { ...host, facts });
  world.scheduler.setHost(facts);
}

/** The replica of a slot that was given a host. */
export function startReplica(world: World, placed: Placed, nowMs: number): string | undefined {
  const service = world.services.get(placed.service);
  if (service === undefined) return undefined;
  const { name, bytes, priority, isEvictable, model } = service;
  const replica = `${name}-${placed.ordinal}-${service.attempts++}`;
  const earned =
    placed.earned === undefined ? {} : { earned: { priority: placed.earned, untilMs: nowMs + EARNED_MS } };
  const claim: HostClaim = {
    replica,
    service: name,
    host: placed.host,
    bytes,
    load: { requests: service.attempts % 5, slots: 4 },
    eviction: isEvictable ? { priority: PRIORITIES[priority], ...earned } : undefined,
  };
  service.slots[placed.ordinal] = { at: "placed", host: placed.host, replica };
  world.replicas.set(replica, { service, ordinal: placed.ordinal, claim });
  world.onHost.get(placed.host)?.add(replica);
  world.scheduler.setClaim(claim);
  storeWeights(world, placed.host, model.source, bytes);
  scheduleService(world, service, nowMs);
  return replica;
}

/** Marks the preempted replica as draining; its slot needs another host immediately. */
export function startDrain(world: World, { replica, for: slot }: Preemption, nowMs: number): void {
  const leaving = world.replicas.get(replica);
  if (leaving === undefined) return;
  leaving.claim = { ...leaving.claim, leaving: { for: slot } };
  world.scheduler.setClaim(leaving.claim);
  emptySlot(world, leaving, replica, nowMs);
}

/** Nothing of it is left. */
export function endReplica(world: World, replica: string, nowMs: number): void {
  const ended = world.replicas.get(replica);
  if (ended === undefined) return;
  world.replicas.delete(replica);
  world.onHost.get(ended.claim.host)?.delete(replica);
  world.scheduler.removeClaim(replica);
  emptySlot(world, ended, replica, nowMs);
}

export function scheduleService(world: World, service: SimulatedService, nowMs: number): void {
  world.scheduler.setDemands(service.name, demandsOf(service), nowMs);
}

function emptySlot(
  world: World,
  { service, ordinal }: SimulatedReplica,
  replica: string,
  nowMs: number,
): void {
  const slot = service.slots[ordinal];
  if (slot?.at !== "placed" || slot.replica !== replica || service.isGone) return;
  service.slots[ordinal] = { at: "empty" };
  service.waitingSinceMs ??= nowMs;
  scheduleService(world, service, nowMs);
}

/** What was fetched stays until others need the disk, and its speed is known from then on. */
function storeWeights(world: World, name: string, source: string, bytes: number): void {
  const host = world.hosts.get(name);
  if (host === undefined || host.facts.models.some((model) => model.source === source)) return;
  const tokensPerSecond = Math.round((host.bandwidth / (bytes / GIB)) * 10) / 10;
  const models = [...host.facts.models, { source, tokensPerSecond }].slice(-STORED_MODELS);
  changeHost(world, name, { models });
}
