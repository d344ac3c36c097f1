/** A signal for one exchange: aborted by the caller's signal or at the timeout; leaves no listener or timer behind. */

export interface Deadline {
  readonly signal: AbortSignal;
  readonly isOver: () => boolean;
  /** Stops the timer only: from then on the caller's signal is the only limit. */
  readonly lift: () => void;
  readonly release: () => void;
}

/** Not AbortSignal.any: its results stay referenced by a signal that lives as long as the process. */
export function startDeadline(timeoutMs: number, outer: AbortSignal | undefined): Deadline {
  const controller = new AbortController();
  let isOver = false;
  const timer = setTimeout(() => {
    isOver = true;
    controller.abort(new Error(`no answer within ${timeoutMs} ms`));
  }, timeoutMs);
  const follow = () => controller.abort(outer?.reason);
  if (outer?.aborted === true) follow();
  else outer?.addEventListener("abort", follow, { once: true });
  return {
    signal: controller.signal,
    isOver: () => isOver,
    lift: () => clearTimeout(timer),
    release: () => {
      clearTimeout(timer);
      outer?.removeEventListener("abort", follow);
    },
  };
}
