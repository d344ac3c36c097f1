/** The ways a user or the system asks a running verb to end. */
import { exitCodes } from "./exit-codes.ts";

export interface StopRequest {
  readonly signal: AbortSignal;
  /** Aborted by a second request, from a user who will not wait. */
  readonly again: AbortSignal;
  /** Asks from inside, as a signal would. */
  readonly stop: () => void;
  /** 130 after Ctrl-C, else 0. */
  readonly exitCode: () => number;
}

/** One Ctrl-C can arrive twice: from the terminal and from npm, which passes it on. */
const ONE_REQUEST_MS = 1_000;

/**
 * Ctrl-C, TERM and a closed terminal abort `signal` once; further ones abort `again`, which most verbs have no use for,
 * because stopping is under way and is bounded in time.
 */
export function listenForStop(): StopRequest {
  const first = new AbortController();
  const again = new AbortController();
  let firstMs = 0;
  let exitCode: number = exitCodes.ok;
  const stop = (): void => {
    if (first.signal.aborted && performance.now() - firstMs >= ONE_REQUEST_MS) again.abort();
    if (first.signal.aborted) return;
    firstMs = performance.now();
    first.abort();
  };
  process.on("SIGINT", () => {
    if (!first.signal.aborted) exitCode = exitCodes.interrupted;
    stop();
  });
  process.on("SIGTERM", stop);
  process.on("SIGHUP", stop);
  return { signal: first.signal, again: again.signal, stop, exitCode: () => exitCode };
}

/** Resolves when it is aborted. */
export function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
