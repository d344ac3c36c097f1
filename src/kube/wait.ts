/** Waiting on the injected clock. */
import type { Clock } from "../util/ports.ts";

/** Resolves after `delayMs`, or as soon as `signal` is aborted. Never rejects; the caller checks the signal. */
export function waitMs(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const finish = () => {
      cancel();
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const cancel = clock.after(delayMs, finish);
    signal.addEventListener("abort", finish, { once: true });
  });
}
