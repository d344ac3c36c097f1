/** Every step, in the order in which they run. */
import { engineSteps } from "./engine.ts";
import { processSteps } from "./processes.ts";
import type { SelftestStep } from "./step.ts";
import { toolSteps } from "./tools.ts";

/** New for each run: the engine's steps share one engine. */
export function allSteps(): readonly SelftestStep[] {
  return [...toolSteps, ...processSteps, ...engineSteps()];
}
