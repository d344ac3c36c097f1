/** From the end of an idle service to the end of everything of its engine. */

import { defaultTimings } from "../../../agent/replicas/evidence/timings.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { must } from "../../../test/bed/must.ts";
import { openBed } from "../beds/bed.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { NAMESPACE } from "../beds/plane.ts";

const ROUNDS = 10;
const OVERHEAD_MS = 300;

/** The replica's finalizer goes when nothing of the engine is left, so its object's end is the drain's. */
export async function measureDrains(): Promise<readonly ScenarioResult[]> {
  await using bed = await openBed();
  const samples: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const name = `drain-${round}`;
    await bed.createService(name, { rollout: { drainSeconds: 30 } });
    await bed.untilServing(name);
    const key = `${NAMESPACE}/${bed.replicasOf(name)[0]?.metadata.name}`;
    const deleted = bed.changed.until(`the deletion of ${key}`, () =>
      bed.replicas.get(key)?.metadata.deletionTimestamp === undefined ? undefined : performance.now(),
    );
    must(await bed.client.remove(INFERENCE_SERVICES, { name, namespace: NAMESPACE }));
    const deletedAt = await deleted;
    const endedAt = await bed.changed.until(`the end of ${key}`, () =>
      bed.replicas.get(key) === undefined ? performance.now() : undefined,
    );
    samples.push(endedAt - deletedAt);
  }
  const limit = defaultTimings.propagationMs + defaultTimings.quietMs + OVERHEAD_MS;
  return [measured("idle engine: deletion → nothing left of it", "ms", samples, { max: limit })];
}
