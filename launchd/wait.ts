/** Polls launchd, systemd and the agent, because none of them sends notifications. */
import { waitMs } from "../src/kube/wait.ts";
import type { Clock } from "../src/util/ports.ts";

const FIRST_MS = 20;
const MAX_MS = 250;

/** Calls `check` at growing intervals, at least once, until it returns true. Returns false after `withinMs`. */
export async function pollUntil(
  clock: Clock,
  withinMs: number,
  check: () => Promise<boolean>,
): Promise<boolean> {
  const deadlineMs = clock.monotonicMs() + withinMs;
  const never = new AbortController().signal;
  for (let delayMs = FIRST_MS; ; delayMs = Math.min(MAX_MS, delayMs * 2)) {
    if (await check()) return true;
    const leftMs = deadlineMs - clock.monotonicMs();
    if (leftMs <= 0) return false;
    await waitMs(clock, Math.min(delayMs, leftMs), never);
  }
}
