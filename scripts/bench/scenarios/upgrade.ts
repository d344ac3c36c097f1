/** The agent's upgrade while clients ask: phases with and without one, in turn, so that both see the same machine. */
import { setTimeout as pause } from "node:timers/promises";
import { ONE_THREAD } from "../../../test/bed/agent.ts";
import { type BenchFleet, openFleet } from "../beds/fleet.ts";
import { failedRequests, type LoadResponse, REQUESTS_PER_S, startLoad } from "../beds/load.ts";
import { measured, type ScenarioResult, summaryOf } from "../beds/measurement.ts";

const ROUNDS = 5;
const PHASE_MS = 10_000;
const SERVICE = "bench";

interface Phase {
  readonly isUpgrade: boolean;
  readonly from: number;
  readonly to: number;
}

export async function measureUpgrade(): Promise<readonly ScenarioResult[]> {
  await using fleet = await openFleet(1);
  await fleet.createService(SERVICE, { parallelSlots: 4, contextSize: 1_024, extraArgs: ONE_THREAD });
  await fleet.untilServing(SERVICE, 1);
  // The endpoint is announced before the status is written.
  const pid = await fleet.changed.until("a pid", () => fleet.replicasOf(SERVICE)[0]?.status?.pid);
  const load = await startLoad(fleet.network.namespace, await fleet.urlOf(SERVICE));
  const phases: Phase[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    phases.push(await phase(fleet, false));
    phases.push(await phase(fleet, true));
  }
  const responses = await load.stop();
  const { status } = fleet.replicasOf(SERVICE)[0] ?? {};
  if (status?.pid !== pid) throw new Error(`the engine was not adopted: ${JSON.stringify(status)}`);
  return measurementsOf(responses, phases);
}

async function phase(fleet: BenchFleet, isUpgrade: boolean): Promise<Phase> {
  const from = Date.now();
  const ended = pause(PHASE_MS);
  if (isUpgrade) for (const agent of fleet.fleet.agents) await fleet.upgrade(agent);
  await ended;
  return { isUpgrade, from, to: Date.now() };
}

function measurementsOf(
  responses: readonly LoadResponse[],
  phases: readonly Phase[],
): readonly ScenarioResult[] {
  const of = ({ from, to }: Phase) =>
    responses.filter(({ startedAt }) => startedAt >= from && startedAt < to).map(({ ms }) => ms);
  const quiet = phases.filter(({ isUpgrade }) => !isUpgrade).map(of);
  const upgraded = phases.filter(({ isUpgrade }) => isUpgrade).map(of);
  const tails = (all: readonly number[][]) => all.map((samples) => summaryOf(samples).p99);
  const noise = Math.max(...tails(quiet));
  const name = `agent upgrade, ${REQUESTS_PER_S} requests/s`;
  return [
    failedRequests(name, responses),
    measured(`${name}: all requests`, "requests", [responses.length]),
    measured(`${name}: response, ${PHASE_MS / 1_000} s without`, "ms", quiet.flat()),
    measured(`${name}: response, ${PHASE_MS / 1_000} s with one`, "ms", upgraded.flat()),
    measured(
      `${name}: p99 with, to the worst p99 without`,
      "ratio",
      tails(upgraded).map((p99) => p99 / noise),
      { p50: 1 },
    ),
  ];
}
