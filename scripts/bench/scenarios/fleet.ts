/** One real controller with a thousand hosts that a script writes: what it costs, who follows it, and a hundred hosts lost at once. */
import { setTimeout as pause } from "node:timers/promises";
import { isConditionTrue } from "../../../src/api/conditions.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { countWithdrawn, openScriptedFleet, type ScriptedFleet } from "../beds/scripted-fleet.ts";
import { cpuSeconds, megabytes } from "./idle.ts";

const LOST = 100;
const REPLICAS_PER_SERVICE = 10;
const HOST_LOST_SECONDS = 60;
/** Caches, queues and garbage of the creation. */
const SETTLE_MS = 30_000;
/** A verdict of a new leader about silence would come within this time. */
const WATCH_MS = 50_000;
const LIMIT_MS = 600_000;

export interface FleetOptions {
  readonly hosts: number;
  readonly idleMinutes: number;
}

/** Three replicas a host. */
export async function measureFleet({ hosts, idleMinutes }: FleetOptions): Promise<readonly ScenarioResult[]> {
  const services = Math.round((hosts * 3) / REPLICAS_PER_SERVICE);
  const spec = { hostLostSeconds: HOST_LOST_SECONDS };
  const from = performance.now();
  await using fleet = await openScriptedFleet({ hosts, services, replicas: REPLICAS_PER_SERVICE, spec });
  const filledMs = performance.now() - from;
  const count = services * REPLICAS_PER_SERVICE;
  const name = `${hosts} hosts, ${count} replicas`;
  const idle = await measureIdleController(fleet, name, idleMinutes);
  const leader = await measureLeaderChange(fleet, name);
  const lost = await measureLoss(fleet, name, count + 1);
  const filled = measured(`${name}: control plane started → all ready`, "ms", [filledMs]);
  return [filled, ...idle, ...leader, ...lost];
}

/** Nothing changes but the hosts' Leases. */
async function measureIdleController(
  fleet: ScriptedFleet,
  name: string,
  minutes: number,
): Promise<readonly ScenarioResult[]> {
  await pause(SETTLE_MS);
  const { pid } = fleet.controller();
  const before = { cpu: cpuSeconds(pid), at: performance.now() };
  await pause(minutes * 60_000);
  const cpu = ((cpuSeconds(pid) - before.cpu) / (performance.now() - before.at)) * 100_000;
  return [
    measured(`${name}: controller's CPU of one core, ${minutes} min with Lease renewals only`, "%", [cpu], {
      max: 5,
    }),
    measured(`${name}: controller resident`, "MB", [megabytes(pid, "VmRSS")], { max: 300 }),
    measured(`${name}: its peak`, "MB", [megabytes(pid, "VmHWM")]),
  ];
}

/** The leader is killed while another controller waits, and a service is created at that moment. */
async function measureLeaderChange(fleet: ScriptedFleet, name: string): Promise<readonly ScenarioResult[]> {
  const leader = fleet.controller();
  fleet.startController();
  await pause(SETTLE_MS);
  const withdrawnSince = countWithdrawn(fleet);
  const killedAt = performance.now();
  await leader.kill("SIGKILL");
  await fleet.createService("after-leader-change", { hostLostSeconds: HOST_LOST_SECONDS });
  await fleet.changed.until(
    "a replica of the new service",
    () => fleet.replicas.list().find(({ spec }) => spec.template.serviceName === "after-leader-change"),
    LIMIT_MS,
  );
  const changeMs = performance.now() - killedAt;
  await pause(WATCH_MS);
  return [
    measured(`${name}: leader killed → the next one has acted on a new service`, "ms", [changeMs], {
      max: 20_000,
    }),
    measured(`${name}: slices withdrawn by that`, "slices", [withdrawnSince()], { max: 0 }),
  ];
}

/** Every tenth host falls silent. */
async function measureLoss(
  fleet: ScriptedFleet,
  name: string,
  count: number,
): Promise<readonly ScenarioResult[]> {
  const every = Math.max(2, Math.floor(fleet.fleet.length / LOST));
  const lost = fleet.fleet.filter((_, index) => index % every === 0).slice(0, LOST);
  const names = new Set(lost.map((host) => host.name));
  const wrong = countWithdrawn(fleet, (host) => !names.has(host));
  const lostAt = performance.now();
  for (const host of lost) host.lose();
  await fleet.changed.until(
    `${lost.length} unreachable hosts`,
    () => {
      const away = fleet.hosts
        .list()
        .filter(({ status }) => !isConditionTrue(status?.conditions, "Reachable"));
      return away.length >= lost.length || undefined;
    },
    LIMIT_MS,
  );
  const foundMs = performance.now() - lostAt;
  // Until the controller has judged them, what was ready on them still looks ready.
  const isOnLost = ({ spec }: InferenceReplica) => names.has(spec.template.hostName);
  await fleet.changed.until(
    "no replica of a lost host",
    () => !fleet.replicas.list().some(isOnLost) || undefined,
    LIMIT_MS,
  );
  await fleet.untilAllServing(count);
  const after = `${lost.length} of ${name} lost at once`;
  return [
    measured(`${after}: all found unreachable`, "ms", [foundMs]),
    measured(`${after} → all replicas ready elsewhere (hostLostSeconds: ${HOST_LOST_SECONDS})`, "ms", [
      performance.now() - lostAt,
    ]),
    measured(`${after}: slices of other hosts withdrawn`, "slices", [wrong()], { max: 0 }),
  ];
}
