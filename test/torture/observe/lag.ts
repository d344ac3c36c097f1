/** How late this process itself gets to run: what it sees late because of that is not the farm's fault. */
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Recorder } from "./recorder.ts";

const EVERY_MS = 1_000;
const RESOLUTION_MS = 20;
/** Less is the noise of timers. */
const WORTH_NOTING_MS = 100;

/** Notes each second in which it was late; ends with the returned function. */
export function watchLag(recorder: Recorder): () => void {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  const timer = setInterval(() => {
    const maxMs = Math.round(delay.max / 1e6) - RESOLUTION_MS;
    delay.reset();
    if (maxMs >= WORTH_NOTING_MS) recorder.note({ type: "lag", maxMs });
  }, EVERY_MS);
  return () => {
    clearInterval(timer);
    delay.disable();
  };
}
