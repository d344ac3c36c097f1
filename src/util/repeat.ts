/** Repeats work until a signal is aborted, with a pause after each run. One listener serves all runs. */
import type { Clock, Log } from "./ports.ts";

export function repeat(
  { clock, log, signal }: { readonly clock: Clock; readonly log: Log; readonly signal: AbortSignal },
  pauseMs: number,
  work: () => Promise<void>,
): void {
  let cancel = () => {};
  const next = (): void => {
    if (signal.aborted) return;
    cancel = clock.after(pauseMs, () => {
      work()
        .catch((err: unknown) => log.error({ err }, "regular work failed"))
        .finally(next);
    });
  };
  next();
  signal.addEventListener("abort", () => cancel(), { once: true });
}
