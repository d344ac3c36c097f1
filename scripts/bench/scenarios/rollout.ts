/** A change of a service with three replicas, while clients ask: what they see of it. */
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { type BenchFleet, openFleet } from "../beds/fleet.ts";
import { type LoadResponse, startLoad } from "../beds/load.ts";
import type { Measurement } from "../beds/measurement.ts";
import { expectOk, NAMESPACE } from "../beds/plane.ts";

const REPLICAS = 3;
const ROUNDS = 3;
const REQUESTS_PER_S = 20;
const TOKENS = 8;
const SERVICE = "bench";
/** Requests that a node's proxy sends to the old engines although they are withdrawn come within this time. */
const AFTER_MS = 5_000;

/** Each round changes the context size, which needs new engines. */
export async function measureRollout(): Promise<readonly Measurement[]> {
  await using fleet = await openFleet(REPLICAS);
  await fleet.createService(SERVICE, { replicas: REPLICAS, parallelSlots: 2, rollout: { drainSeconds: 30 } });
  await fleet.untilServing(SERVICE, REPLICAS);
  const load = await startLoad(fleet.network.namespace, await fleet.urlOf(SERVICE), REQUESTS_PER_S, TOKENS);
  const took: number[] = [];
  for (let round = 1; round <= ROUNDS; round++) took.push(await rollOut(fleet, 256 + 128 * round));
  await new Promise((resolve) => setTimeout(resolve, AFTER_MS));
  const answers = await load.stop();
  const failed = answers.filter(({ error }) => error !== undefined);
  sayFailures(failed);
  const name = `rolling update of ${REPLICAS} replicas, ${REQUESTS_PER_S} requests/s`;
  return [
    {
      name: `${name}: failed requests`,
      unit: "requests",
      samples: [failed.length],
      targets: [{ statistic: "max", limit: 0 }],
    },
    { name: `${name}: all requests`, unit: "requests", samples: [answers.length], targets: [] },
    { name: `${name}: answer`, unit: "ms", samples: answers.map(({ ms }) => ms), targets: [] },
    { name: `${name}: change → only new replicas`, unit: "ms", samples: took, targets: [] },
  ];
}

async function rollOut(fleet: BenchFleet, contextSize: number): Promise<number> {
  const old = new Set(fleet.replicasOf(SERVICE).map(({ metadata }) => metadata.uid));
  const change = [{ op: "replace" as const, path: "/spec/contextSize", value: contextSize }];
  expectOk(await fleet.client.jsonPatch(INFERENCE_SERVICES, { name: SERVICE, namespace: NAMESPACE }, change));
  const changedAt = performance.now();
  await fleet.changed.until("the old replicas to be gone", () => {
    const now = fleet.replicasOf(SERVICE);
    return (now.length === REPLICAS && now.every(({ metadata }) => !old.has(metadata.uid))) || undefined;
  });
  await fleet.untilServing(SERVICE, REPLICAS);
  return performance.now() - changedAt;
}

/** What went wrong is worth more than how often. */
export function sayFailures(failed: readonly LoadResponse[]): void {
  for (const { startedAt, ms, error } of failed)
    console.error(`${new Date(startedAt).toISOString()} failed after ${Math.round(ms)} ms: ${error}`);
}
