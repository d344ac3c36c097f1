/** How fast an engine generates, from counters that are read anyway; kept with the weights that it runs on. */
import { type Generated, measureSpeed, NOTHING_GENERATED } from "../../../src/engines/speed.ts";
import { parseSource } from "../../../src/source/source.ts";
import type { RunnerContext } from "../context.ts";
import type { ReplicaState } from "../state.ts";

/** Measured once enough was generated since the last time. */
export function noteSpeed(state: ReplicaState, context: RunnerContext, generated: Generated): void {
  const { counted, tokensPerSecond } = measureSpeed(state.run.generated ?? NOTHING_GENERATED, generated);
  state.run.generated = counted;
  const sha256 = weightsOf(state);
  if (tokensPerSecond === undefined || sha256 === undefined) return;
  state.log.debug({ tokensPerSecond }, "speed measured");
  context.ports.store.noteSpeed(sha256, tokensPerSecond).catch((err: unknown) => {
    state.log.warn({ err }, "the measured speed could not be kept");
  });
}

/** The first of what it holds is its model, then comes the draft. A file used in place is no model of the store. */
function weightsOf({ desired, file }: ReplicaState): string | undefined {
  if (desired === undefined || parseSource(desired.spec.template.model.source).kind === "file")
    return undefined;
  return file?.contents?.[0];
}
