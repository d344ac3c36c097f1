/** The agent's upgrade while clients ask: phases with and without one, in turn, so that both see the same machine. */
import { ONE_THREAD } from "../../../test/bed/agent.ts";
import { type BenchFleet, openFleet } from "../beds/fleet.ts";
import { type LoadResponse, startLoad } from "../beds/load.ts";
import { figuresOf, type Measurement } from "../beds/measurement.ts";
import { sayFailures } from "./rollout.ts";

const ROUNDS = 5;
const PHASE_MS = 10_000;
const REQUESTS_PER_S = 20;
const TOKENS = 8;
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
  const load = await startLoad(fleet.network.namespace, await fleet.urlOf(SERVICE), REQUESTS_PER_S, TOKENS);
  const phases: Phase[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    phases.push(await phase(fleet, false));
    phases.push(await phase(fleet, true));
  }
  const answers = await load.stop();
  const failed = answers.filter(({ error }) => error !== undefined);
  sayFailures(failed);
  const { status } = fleet.replicasOf(SERVICE)[0] ?? {};
  if (status?.pid !== pid) throw new Error(`the engine was not adopted: ${JSON.stringify(status)}`);
  return measurementsOf(answers, failed.length, phases);
}

async function phase(fleet: BenchFleet, isUpgrade: boolean): Promise<Phase> {
  const from = Date.now();
  const over = new Promise((resolve) => setTimeout(resolve, PHASE_MS));
  if (isUpgrade) for (const agent of fleet.farm.agents) await fleet.upgrade(agent);
  await over;
  return { isUpgrade, from, to: Date.now() };
}

function measurementsOf(
  answers: readonly LoadResponse[],
  failed: number,
  phases: readonly Phase[],
): readonly Measurement[] {
  const of = ({ from, to }: Phase) =>
    answers.filter(({ startedAt }) => startedAt >= from && startedAt < to).map(({ ms }) => ms);
  const quiet = phases.filter(({ isUpgrade }) => !isUpgrade).map(of);
  const upgraded = phases.filter(({ isUpgrade }) => isUpgrade).map(of);
  const tails = (all: readonly number[][]) => all.map((samples) => figuresOf(samples).p99);
  const noise = Math.max(...tails(quiet));
  const name = `agent upgrade, ${REQUESTS_PER_S} requests/s`;
  return [
    {
      name: `${name}: failed requests`,
      unit: "requests",
      samples: [failed],
      targets: [{ statistic: "max", limit: 0 }],
    },
    { name: `${name}: all requests`, unit: "requests", samples: [answers.length], targets: [] },
    {
      name: `${name}: answer, ${PHASE_MS / 1_000} s without`,
      unit: "ms",
      samples: quiet.flat(),
      targets: [],
    },
    {
      name: `${name}: answer, ${PHASE_MS / 1_000} s with one`,
      unit: "ms",
      samples: upgraded.flat(),
      targets: [],
    },
    {
      name: `${name}: p99 with, to the worst p99 without`,
      unit: "ratio",
      samples: tails(upgraded).map((p99) => p99 / noise),
      targets: [{ statistic: "p50", limit: 1 }],
    },
  ];
}
