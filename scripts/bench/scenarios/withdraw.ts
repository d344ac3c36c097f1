/** From the death of an engine to its endpoint's withdrawal at the API server. */
import type { Bed } from "../beds/bed.ts";
import { measured, type ScenarioResult } from "../beds/measurement.ts";
import { isSliceReady } from "../beds/plane.ts";

/** Kills every running engine once, one after the other, and waits until each serves again. */
export async function measureWithdrawals(bed: Bed, name: string): Promise<ScenarioResult> {
  const samples: number[] = [];
  const running = bed.replicas
    .list()
    .filter(({ status }) => status?.phase === "Ready" && status.pid !== undefined);
  for (const { metadata, status } of running) {
    const key = `${metadata.namespace}/${metadata.name}`;
    const withdrawn = bed.changed.until(`the withdrawal of ${key}`, () => {
      const slice = bed.slices.get(key);
      return slice !== undefined && !isSliceReady(slice) ? performance.now() : undefined;
    });
    const killedAt = performance.now();
    process.kill(status?.pid ?? 0, "SIGKILL");
    samples.push((await withdrawn) - killedAt);
  }
  await bed.changed.until("all engines to serve again", () =>
    running.every(
      ({ metadata }) => bed.replicas.get(`${metadata.namespace}/${metadata.name}`)?.status?.phase === "Ready",
    )
      ? true
      : undefined,
  );
  return measured(name, "ms", samples, { p99: 100 });
}
