/** From the end of an idle service to the end of everything of its engine. */

import { defaultTimings } from "../../../agent/replicas/timings.ts";
import { INFERENCE_SERVICES } from "../../../src/api/kinds.ts";
import { openBed } from "../beds/bed.ts";
import type { Measurement } from "../beds/measurement.ts";
import { expectOk, NAMESPACE } from "../beds/plane.ts";
import { isReadySliceOf } from "./start.ts";

const ROUNDS = 10;
const OVERHEAD_MS = 300;

/** The replica's finalizer goes when nothing of the engine is left, so its object's end is the drain's. */
export async function measureDrains(): Promise<readonly Measurement[]> {
  await using bed = await openBed();
  const samples: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const name = `drain-${round}`;
    await bed.createService(name, { rollout: { drainSeconds: 30 } });
    const { metadata } = await bed.changed.until(`a ready slice of ${name}`, () =>
      bed.slices.list().find((slice) => isReadySliceOf(slice, name)),
    );
    const key = `${metadata.namespace}/${metadata.name}`;
    const deleted = bed.changed.until(`the deletion of ${key}`, () =>
      bed.replicas.get(key)?.metadata.deletionTimestamp === undefined ? undefined : performance.now(),
    );
    expectOk(await bed.client.remove(INFERENCE_SERVICES, { name, namespace: NAMESPACE }));
    const toldAt = await deleted;
    const goneAt = await bed.changed.until(`the end of ${key}`, () =>
      bed.replicas.get(key) === undefined ? performance.now() : undefined,
    );
    samples.push(goneAt - toldAt);
  }
  const limit = defaultTimings.propagationMs + defaultTimings.quietMs + OVERHEAD_MS;
  return [
    {
      name: "idle engine: deletion → nothing left of it",
      unit: "ms",
      samples,
      targets: [{ statistic: "max", limit }],
    },
  ];
}
