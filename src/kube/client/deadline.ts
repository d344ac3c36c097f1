/** The abort signal of an exchange, which follows the caller's signal and a timeout, and leaves no listener or timer behind. */

export interface Deadline {
  readonly signal: AbortSignal;
  readonly hasExpired: () => boolean;
  /** Stops the timer, so that only the caller's signal still aborts. */
  readonly lift: () => void;
  readonly release: () => void;
}

/** Does not use AbortSignal.any, because a signal that lives as long as the process keeps references to its results. */
export function startDeadline(timeoutMs: number, outer: AbortSignal | undefined): Deadline {
  const controller = new AbortController();
  let hasExpired = false;
  const timer = setTimeout(() => {
    hasExpired = true;
    controller.abort(new Error(`no answer within ${timeoutMs} ms`));
  }, timeoutMs);
  const follow = () => controller.abort(outer?.reason);
  if (outer?.aborted === true) follow();
  else outer?.addEventListener("abort", follow, { once: true });
  return {
    signal: controller.signal,
    hasExpired: () => hasExpired,
    lift: () => clearTimeout(timer),
    release: () => {
      clearTimeout(timer);
      outer?.removeEventListener("abort", follow);
    },
  };
}
