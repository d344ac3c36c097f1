/** Waiting for launchd, systemd and the agent: none of them reports to us, so they are asked. */
import { waitMs } from "../src/kube/wait.ts";
import type { Clock } from "../src/util/ports.ts";

const FIRST_MS = 20;
const MAX_MS = 250;

/** Asks at growing intervals until the answer is true; false when `withinMs` has passed. At least once. */
export async function pollUntil(
  clock: Clock,
  withinMs: number,
  ask: () => Promise<boolean>,
): Promise<boolean> {
  const deadlineMs = clock.monotonicMs() + withinMs;
  const never = new AbortController().signal;
  for (let delayMs = FIRST_MS; ; delayMs = Math.min(MAX_MS, delayMs * 2)) {
    if (await ask()) return true;
    const leftMs = deadlineMs - clock.monotonicMs();
    if (leftMs <= 0) return false;
    await waitMs(clock, Math.min(delayMs, leftMs), never);
  }
}
