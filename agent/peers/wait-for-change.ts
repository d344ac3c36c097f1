/** Waits for a condition that changes announce. */
import type { Clock } from "../../src/util/ports.ts";

export interface WaitLimits {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Resolves with false if the condition is not met in time or the signal is aborted. `subscribe` returns a function that unsubscribes. */
export function waitForChange(
  isMet: () => boolean,
  subscribe: (onChange: () => void) => () => void,
  { clock, timeoutMs, signal }: WaitLimits,
): Promise<boolean> {
  return new Promise((resolve) => {
    if (isMet()) return resolve(true);
    if (signal.aborted) return resolve(false);
    const finish = (isInTime: boolean): void => {
      cancel();
      unsubscribe();
      signal.removeEventListener("abort", giveUp);
      resolve(isInTime);
    };
    const giveUp = (): void => finish(false);
    const cancel = clock.after(timeoutMs, giveUp);
    const unsubscribe = subscribe(() => {
      if (isMet()) finish(true);
    });
    signal.addEventListener("abort", giveUp, { once: true });
  });
}
