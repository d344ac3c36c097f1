/** From the start of a new agent over running engines to the last adoption. */
import type { Bed } from "../beds/bed.ts";
import type { Measurement } from "../beds/measurement.ts";

const ROUNDS = 5;
const POLL_MS = 10;

/** Kills the agent and starts another, several times; engines run on. */
export async function measureAdoption(bed: Bed): Promise<Measurement> {
  const engines = bed.replicas.list().filter(({ status }) => status?.phase === "Ready").length;
  const samples: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await bed.farm.agent().kill("SIGKILL");
    const before = adoptions(bed.farm.agent().log());
    const startedAt = performance.now();
    const agent = bed.farm.restartAgent();
    while (adoptions(agent.log()) < before + engines) {
      if (performance.now() - startedAt > 30_000)
        throw new Error(`not all ${engines} engines were adopted:\n${agent.log().slice(-2_000)}`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
    samples.push(performance.now() - startedAt);
  }
  await agentReady(bed);
  return {
    name: `agent start → ${engines} engines adopted`,
    unit: "ms",
    samples,
    targets: [{ statistic: "max", limit: 1_000 }],
  };
}

/** What follows is measured on an agent that has reached the cluster again, and holds its Lease. */
export async function agentReady(bed: Bed): Promise<void> {
  const deadlineAt = performance.now() + 120_000;
  for (;;) {
    const port = [
      ...bed.farm
        .agent()
        .log()
        .matchAll(/"port":(\d+),"msg":"listening on loopback/g),
    ].at(-1)?.[1];
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => undefined);
    if (answer?.ok === true) return;
    if (performance.now() > deadlineAt) throw new Error("the agent did not get ready again");
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function adoptions(log: string): number {
  return log.split("\n").filter((line) => line.includes('"msg":"engine adopted"')).length;
}
