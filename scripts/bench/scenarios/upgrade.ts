/** The agent's upgrade while clients ask: phases with and without one, in turn, so that both see the same machine. */
import { setTimeout as pause } from "node:timers/promises";
import { ONE_THREAD } from "../../../test/bed/agent.ts";
import { type BenchFleet, openFleet } from "../beds/fleet.ts";
import { failedRequests, type LoadResponse, REQUESTS_PER_S, startLoad } from "../beds/load.ts";
import { figuresOf, type Measurement, measured } from "../beds/measurement.ts";

const ROUNDS = 5;
const PHASE_MS = 10_000;
const SERVICE = "bench";

interface Phase {
  readonly isUpgrade: boolean;
  readonly from: number;
  readonly to: number;
}

export async function measureUpgrade(): Promise<readonly Measurement[]> {
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
  const answers = await load.stop();
  const { status } = fleet.replicasOf(SERVICE)[0] ?? {};
  if (status?.pid !== pid) throw new Error(`the engine was not adopted: ${JSON.stringify(status)}`);
  return measurementsOf(answers, phases);
}

async function phase(fleet: BenchFleet, isUpgrade: boolean): Promise<Phase> {
  const from = Date.now();
  const ended = pause(PHASE_MS);
  if (isUpgrade) for (const agent of fleet.farm.agents) await fleet.upgrade(agent);
  await ended;
  return { isUpgrade, from, to: Date.now() };
}

function measurementsOf(answers: readonly LoadResponse[], phases: readonly Phase[]): readonly Measurement[] {
  const of = ({ from, to }: Phase) =>
    answers.filter(({ startedAt }) => startedAt >= from && startedAt < to).map(({ ms }) => ms);
  const quiet = phases.filter(({ isUpgrade }) => !isUpgrade).map(of);
  const upgraded = phases.filter(({ isUpgrade }) => isUpgrade).map(of);
  const tails = (all: readonly number[][]) => all.map((samples) => figuresOf(samples).p99);
  const noise = Math.max(...tails(quiet));
  const name = `agent upgrade, ${REQUESTS_PER_S} requests/s`;
  return [
    failedRequests(name, answers),
    measured(`${name}: all requests`, "requests", [answers.length]),
    measured(`${name}: answer, ${PHASE_MS / 1_000} s without`, "ms", quiet.flat()),
    measured(`${name}: answer, ${PHASE_MS / 1_000} s with one`, "ms", upgraded.flat()),
    measured(
      `${name}: p99 with, to the worst p99 without`,
      "ratio",
      tails(upgraded).map((p99) => p99 / noise),
      { p50: 1 },
    ),
  ];
}
