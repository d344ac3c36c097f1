/** Waits for what no event reports, such as a program that begins to answer. */
import { setTimeout as pause } from "node:timers/promises";

export interface PollOptions {
  readonly limitMs: number;
  readonly everyMs: number;
  /** Resolves when the program that is waited for has exited, which ends the wait. */
  readonly ended?: Promise<unknown>;
}

/** Resolves once the condition holds. Rejects with the failure after the limit, or when the program has exited. */
export async function poll(
  holds: () => boolean | Promise<boolean>,
  failure: () => unknown,
  { limitMs, everyMs, ended }: PollOptions,
): Promise<void> {
  let isOver = false;
  void ended?.then(() => {
    isOver = true;
  });
  for (const until = performance.now() + limitMs; !(await holds()); await pause(everyMs))
    if (isOver || performance.now() > until) throw await failure();
}
