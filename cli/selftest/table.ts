/** All steps in the order in which they run. */
import { engineSteps } from "./engine.ts";
import { processSteps } from "./processes.ts";
import type { SelftestStep } from "./step.ts";
import { toolSteps } from "./tools.ts";

/** Creates new steps for each run, because the engine steps share one engine. */
export function allSteps(): readonly SelftestStep[] {
  return [...toolSteps, ...processSteps, ...engineSteps()];
}
