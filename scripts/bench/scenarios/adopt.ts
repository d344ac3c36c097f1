/** From the start of a new agent over running engines to the last adoption. */
import { until } from "../../../test/bed/until.ts";
import type { Bed } from "../beds/bed.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";

const ROUNDS = 5;
const POLL_MS = 10;

/** Kills the agent and starts another, several times; engines run on. */
export async function measureAdoption(bed: Bed): Promise<ScenarioResult> {
  const engines = bed.replicas.list().filter(({ status }) => status?.phase === "Ready").length;
  const samples: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await bed.fleet.agent().kill("SIGKILL");
    const before = adoptions(bed.fleet.agent().log());
    const startedAt = performance.now();
    const agent = bed.fleet.restartAgent();
    const areAdopted = () => {
      if (adoptions(agent.log()) >= before + engines) return;
      throw new Error(`not all ${engines} engines were adopted:\n${agent.log().slice(-2_000)}`);
    };
    await until(areAdopted, { everyMs: POLL_MS });
    samples.push(performance.now() - startedAt);
  }
  await agentReady(bed);
  return measured(`agent start → ${engines} engines adopted`, "ms", samples, { max: 1_000 });
}

/** What follows is measured on an agent that has reached the cluster again, and holds its Lease. */
export async function agentReady(bed: Bed): Promise<void> {
  await until(async () => {
    const listening = bed.fleet
      .agent()
      .log()
      .matchAll(/"port":(\d+),"msg":"listening on loopback/g);
    const port = [...listening].at(-1)?.[1];
    if (!(await fetch(`http://127.0.0.1:${port}/readyz`)).ok) throw new Error("the agent is not ready");
  });
}

function adoptions(log: string): number {
  return log.split("\n").filter((line) => line.includes('"msg":"engine adopted"')).length;
}
