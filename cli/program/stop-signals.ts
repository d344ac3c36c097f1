/** The ways in which a user or the system asks a running verb to stop. */
import { finished } from "node:stream";
import { exitCodes } from "./exit-codes.ts";

export interface StopRequest {
  readonly signal: AbortSignal;
  /** Aborted by a second request, from a user who does not want to wait. */
  readonly again: AbortSignal;
  /** Requests a stop from inside the process. */
  readonly stop: () => void;
  /** 130 after Ctrl-C, else 0. */
  readonly exitCode: () => number;
}

/** One Ctrl-C can arrive twice: from the terminal, and from npm, which forwards the signal. */
const ONE_REQUEST_MS = 1_000;

/**
 * Ctrl-C, TERM and a closed terminal abort `signal` once. Later requests abort `again`, which most verbs ignore, because
 * their stop is limited in time. `exitWithStdin` ties the process to the holder of its standard input, also if that is killed.
 */
export function listenForStop(options: { readonly exitWithStdin?: boolean } = {}): StopRequest {
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
  if (options.exitWithStdin === true) {
    finished(process.stdin, { writable: false }, stop);
    process.stdin.resume();
  }
  return { signal: first.signal, again: again.signal, stop, exitCode: () => exitCode };
}

/** Resolves when the signal is aborted. */
export function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
