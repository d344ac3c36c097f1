/** A day of a fleet: services are created and deleted, hosts crash and return, replicas are refused, and placement answers every change. */

import { createRandom, type Random } from "../../test/bed/random.ts";
import { GIB, makeHosts, makeModels } from "./fleet.ts";
import { checkInvariants, checkQueue } from "./invariants.ts";
import { LOST_AFTER_MS, SILENT_AFTER_MS, type SimulationOptions } from "./options.ts";
import { createServiceMaker, type ServiceMaker, type SimulatedService } from "./services.ts";
import { createSimulationTally, type Measures, type SimulationTally } from "./tally.ts";
import {
  changeHost,
  createWorld,
  endReplica,
  scheduleService,
  startDrain,
  startReplica,
  type World,
} from "./world.ts";

type Happening =
  | { readonly what: "arrival" }
  | { readonly what: "departure"; readonly service: string }
  | { readonly what: "ended"; readonly replica: string }
  | { readonly what: "refused"; readonly replica: string }
  | { readonly what: "crash" }
  | { readonly what: "silent"; readonly host: string }
  | { readonly what: "lost"; readonly host: string }
  | { readonly what: "back"; readonly host: string }
  | { readonly what: "look" }
  | { readonly what: "sample" };

interface Day {
  readonly options: SimulationOptions;
  readonly random: Random;
  readonly world: World;
  readonly agenda: Agenda<Happening>;
  readonly maker: ServiceMaker;
  readonly tally: SimulationTally;
  readonly touched: Set<string>;
  nowMs: number;
  made: number;
  nextLookMs: number;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const MEAN_LIFE_MS = 8 * HOUR;
/** Mean time between outages of each host. */
const MEAN_BETWEEN_CRASHES_MS = 10 * 24 * HOUR;
const REFUSED_AFTER_MS = 30_000;
const SAMPLE_MS = 5 * MINUTE;

export function simulateDay(options: SimulationOptions, measures: Measures): SimulationTally {
  const random = createRandom(options.seed);
  const hosts = makeHosts(options.hosts, random);
  const budget = hosts.reduce((sum, { facts }) => sum + (facts.budget.known ? facts.budget.bytes : 0), 0);
  const meanReplicas = 1.2;
  const meanBytes = Math.max(GIB / 4, (options.load * budget) / (options.services * meanReplicas));
  const day: Day = {
    options,
    random,
    world: createWorld(hosts),
    agenda: createAgenda(),
    maker: createServiceMaker(random, makeModels(random), meanBytes),
    tally: createSimulationTally(measures),
    touched: new Set(),
    nowMs: 0,
    made: 0,
    nextLookMs: Number.POSITIVE_INFINITY,
  };
  for (let count = 0; count < options.services; count++) arrive(day);
  settle(day, true);
  day.agenda.at(nextArrivalMs(day), { what: "arrival" });
  day.agenda.at(random.exponential(MEAN_BETWEEN_CRASHES_MS / options.hosts), { what: "crash" });
  day.agenda.at(0, { what: "sample" });
  const endMs = options.hours * HOUR;
  for (let entry = day.agenda.next(); entry !== undefined; entry = day.agenda.next()) {
    if (entry.timeMs > endMs) break;
    // Another look was due before this one, and has said when the next is.
    if (entry.event.what === "look" && entry.timeMs !== day.nextLookMs) continue;
    day.nowMs = entry.timeMs;
    happen(day, entry.event);
    // Samples change nothing, and a look without a change has nothing to do.
    settle(day, entry.event.what !== "look" && entry.event.what !== "sample");
    if (entry.event.what === "sample") sample(day);
  }
  checkInvariants(day.world, day.nowMs);
  day.tally.close(day.world, endMs);
  return day.tally;
}

function happen(day: Day, event: Happening): void {
  const { world, agenda, random, nowMs } = day;
  switch (event.what) {
    case "arrival":
      arrive(day);
      agenda.at(nextArrivalMs(day), { what: "arrival" });
      return;
    case "departure":
      depart(day, event.service);
      return;
    case "ended":
      touchHostOf(day, event.replica);
      endReplica(world, event.replica, nowMs);
      return;
    case "refused":
      refuse(day, event.replica);
      return;
    case "crash":
      crash(day);
      agenda.at(nowMs + random.exponential(MEAN_BETWEEN_CRASHES_MS / day.options.hosts), { what: "crash" });
      return;
    case "silent":
      day.touched.add(event.host);
      changeHost(world, event.host, { reachable: { status: "False" } });
      return;
    case "lost":
      lose(day, event.host);
      return;
    case "back":
      day.touched.add(event.host);
      changeHost(world, event.host, { reachable: { status: "True" }, isLost: false });
      return;
    case "look":
      day.nextLookMs = Number.POSITIVE_INFINITY;
      return;
    case "sample":
      agenda.at(nowMs + SAMPLE_MS, { what: "sample" });
      return;
    default:
      event satisfies never;
  }
}

/** Every rule, for every host and every slot that waits. */
function sample({ world, tally, nowMs }: Day): void {
  tally.sample(world, nowMs);
  checkInvariants(world, nowMs);
  checkQueue(world, nowMs);
}

/** More come during the day than at night. */
function nextArrivalMs({ nowMs, options, random }: Day): number {
  const hour = (nowMs / HOUR) % 24;
  const tide = 1 + 0.3 * Math.sin(((hour - 8) / 24) * 2 * Math.PI);
  return nowMs + random.exponential(MEAN_LIFE_MS / options.services / tide);
}

function arrive(day: Day): void {
  const service = day.maker.make(++day.made, day.nowMs);
  day.world.services.set(service.name, service);
  scheduleService(day.world, service, day.nowMs);
  day.agenda.at(day.nowMs + day.random.exponential(MEAN_LIFE_MS), {
    what: "departure",
    service: service.name,
  });
}

/** Its owner deletes it, whether it has run or not. */
function depart(day: Day, name: string): void {
  const service = day.world.services.get(name);
  if (service === undefined) return;
  service.isGone = true;
  day.world.services.delete(name);
  day.tally.departed(service, day.nowMs);
  scheduleService(day.world, service, day.nowMs);
  for (const slot of service.slots) if (slot.at === "placed") drain(day, slot.replica);
}

function drain(day: Day, replica: string): void {
  const leaving = day.world.replicas.get(replica);
  if (leaving === undefined || leaving.claim.leaving !== undefined) return;
  leaving.claim = { ...leaving.claim, leaving: {} };
  day.world.scheduler.setClaim(leaving.claim);
  touchHostOf(day, replica);
  day.agenda.at(day.nowMs + day.random.between(3_000, 45_000), { what: "ended", replica });
}

/** Its agent measures more than was estimated, or another program uses the memory. */
function refuse(day: Day, replica: string): void {
  const found = day.world.replicas.get(replica);
  if (found === undefined || found.claim.leaving !== undefined) return;
  found.service.refusals.push({ host: found.claim.host, atMs: day.nowMs, message: "InsufficientMemory" });
  day.tally.count("refused");
  touchHostOf(day, replica);
  endReplica(day.world, replica, day.nowMs);
}

function crash(day: Day): void {
  const { world, random, agenda, nowMs } = day;
  const names = [...world.hosts.keys()];
  const host = names[Math.floor(random.next() * names.length)] ?? "";
  const facts = world.hosts.get(host)?.facts;
  if (facts?.reachable.status !== "True") return;
  day.tally.count("crashes");
  agenda.at(nowMs + SILENT_AFTER_MS, { what: "silent", host });
  const awayMs = random.exponential(20 * MINUTE) + SILENT_AFTER_MS;
  if (awayMs > LOST_AFTER_MS) agenda.at(nowMs + LOST_AFTER_MS, { what: "lost", host });
  agenda.at(nowMs + awayMs + 1, { what: "back", host });
}

function lose(day: Day, host: string): void {
  changeHost(day.world, host, { isLost: true });
  day.touched.add(host);
  for (const replica of [...(day.world.onHost.get(host) ?? [])]) {
    const lost = day.world.replicas.get(replica);
    if (lost !== undefined && !lost.service.isGone) day.tally.count("replaced after a loss");
    endReplica(day.world, replica, day.nowMs);
  }
}

/** Passes until nothing changes, each timed, then the rules for what was touched. */
function settle(day: Day, hasChanged: boolean): void {
  const { world, tally, nowMs, agenda } = day;
  for (let isChange = hasChanged; ; isChange = true) {
    const { placed, preempted, recheckAfterMs } = tally.pass(() => world.scheduler.pass(nowMs), isChange);
    for (const one of placed) {
      const replica = startReplica(world, one, nowMs);
      day.touched.add(one.host);
      noteFilled(day, world.services.get(one.service));
      if (replica !== undefined && day.random.chance(0.003))
        agenda.at(nowMs + REFUSED_AFTER_MS, { what: "refused", replica });
    }
    for (const one of preempted) {
      tally.preempted(world, one);
      startDrain(world, one, nowMs);
      day.touched.add(one.host);
      agenda.at(nowMs + day.random.between(3_000, 45_000), { what: "ended", replica: one.replica });
    }
    if (placed.length > 0 || preempted.length > 0) continue;
    lookAgain(day, recheckAfterMs);
    break;
  }
  checkInvariants(world, nowMs, day.touched);
  day.touched.clear();
}

function noteFilled(day: Day, service: SimulatedService | undefined): void {
  if (service === undefined || service.slots.some(({ at }) => at === "empty")) return;
  day.tally.filled(service, day.nowMs);
  service.waitingSinceMs = undefined;
}

function lookAgain(day: Day, afterMs: number | undefined): void {
  if (afterMs === undefined) return;
  const atMs = day.nowMs + afterMs;
  if (atMs >= day.nextLookMs) return;
  day.nextLookMs = atMs;
  day.agenda.at(atMs, { what: "look" });
}

function touchHostOf(day: Day, replica: string): void {
  const host = day.world.replicas.get(replica)?.claim.host;
  if (host !== undefined) day.touched.add(host);
}

/** What is going to happen, in order of time; what was entered first goes first. */
interface Agenda<E> {
  readonly at: (timeMs: number, event: E) => void;
  readonly next: () => AgendaEntry<E> | undefined;
}

interface AgendaEntry<E> {
  readonly timeMs: number;
  readonly event: E;
}

function createAgenda<E>(): Agenda<E> {
  /** The last comes first, so that it is cheap to take. */
  const entries: AgendaEntry<E>[] = [];
  return {
    at: (timeMs, event) => {
      let low = 0;
      for (let high = entries.length; low < high; ) {
        const middle = (low + high) >> 1;
        if ((entries[middle]?.timeMs ?? 0) > timeMs) low = middle + 1;
        else high = middle;
      }
      entries.splice(low, 0, { timeMs, event });
    },
    next: () => entries.pop(),
  };
}
