/** Waits for what no event reports, such as a program that begins to answer. The timeout only fails the caller. */
import { setTimeout as pause } from "node:timers/promises";

export interface UntilOptions {
  readonly timeoutMs?: number;
  readonly everyMs?: number;
  /** Resolves when the program that the caller waits for has exited, which ends the wait. */
  readonly ended?: Promise<unknown>;
}

/** Calls `check` until it no longer throws, and resolves with its result. Rejects with the last error. */
export async function until<T>(
  check: () => T | Promise<T>,
  { timeoutMs = 120_000, everyMs = 50, ended }: UntilOptions = {},
): Promise<T> {
  let hasEnded = false;
  void ended?.then(() => {
    hasEnded = true;
  });
  for (const deadline = performance.now() + timeoutMs; ; await pause(everyMs)) {
    try {
      return await check();
    } catch (error) {
      if (hasEnded || performance.now() > deadline) throw error;
    }
  }
}
