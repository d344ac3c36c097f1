/** Every step, in the order in which they run. */
import { engineSteps } from "./engine.ts";
import { processSteps } from "./processes.ts";
import type { Step } from "./step.ts";
import { toolSteps } from "./tools.ts";

/** New for each run: the engine's steps share one engine. */
export function allSteps(): readonly Step[] {
  return [...toolSteps, ...processSteps, ...engineSteps()];
}
