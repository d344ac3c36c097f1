/** A change of a service with three replicas, while clients ask: what they see of it. */
import { setTimeout as pause } from "node:timers/promises";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { must } from "../../../test/bed/must.ts";
import { type BenchFleet, openFleet } from "../beds/fleet.ts";
import { failedRequests, REQUESTS_PER_S, startLoad } from "../beds/load.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { NAMESPACE } from "../beds/plane.ts";

const REPLICAS = 3;
const ROUNDS = 3;
const SERVICE = "bench";
/** Requests that a node's proxy sends to the old engines although they are withdrawn come within this time. */
const AFTER_MS = 5_000;

/** Each round changes the context size, which needs new engines. */
export async function measureRollout(): Promise<readonly ScenarioResult[]> {
  await using fleet = await openFleet(REPLICAS);
  await fleet.createService(SERVICE, { replicas: REPLICAS, parallelSlots: 2, rollout: { drainSeconds: 30 } });
  await fleet.untilServing(SERVICE, REPLICAS);
  const load = await startLoad(fleet.network.namespace, await fleet.urlOf(SERVICE));
  const took: number[] = [];
  for (let round = 1; round <= ROUNDS; round++) took.push(await rollOut(fleet, 256 + 128 * round));
  await pause(AFTER_MS);
  const responses = await load.stop();
  const name = `rolling update of ${REPLICAS} replicas, ${REQUESTS_PER_S} requests/s`;
  return [
    failedRequests(name, responses),
    measured(`${name}: all requests`, "requests", [responses.length]),
    measured(
      `${name}: response`,
      "ms",
      responses.map(({ ms }) => ms),
    ),
    measured(`${name}: change → only new replicas`, "ms", took),
  ];
}

async function rollOut(fleet: BenchFleet, contextSize: number): Promise<number> {
  const old = new Set(fleet.replicasOf(SERVICE).map(({ metadata }) => metadata.uid));
  const change = [{ op: "replace" as const, path: "/spec/contextSize", value: contextSize }];
  must(await fleet.client.jsonPatch(INFERENCE_SERVICES, { name: SERVICE, namespace: NAMESPACE }, change));
  const changedAt = performance.now();
  await fleet.changed.until("the old replicas to be gone", () => {
    const now = fleet.replicasOf(SERVICE);
    return (now.length === REPLICAS && now.every(({ metadata }) => !old.has(metadata.uid))) || undefined;
  });
  await fleet.untilServing(SERVICE, REPLICAS);
  return performance.now() - changedAt;
}
