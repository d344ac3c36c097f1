/** The ways a user or the system asks a running verb to end. */
import { exitCodes } from "./exit-codes.ts";

export interface StopRequest {
  readonly signal: AbortSignal;
  /** Asks from inside, as a signal would. */
  readonly stop: () => void;
  /** 130 after Ctrl-C, else 0. */
  readonly exitCode: () => number;
}

/**
 * Ctrl-C, TERM and a closed terminal abort once; further ones are swallowed, because stopping is under way and is bounded
 * in time.
 */
export function listenForStop(): StopRequest {
  const controller = new AbortController();
  let exitCode: number = exitCodes.ok;
  process.on("SIGINT", () => {
    if (!controller.signal.aborted) exitCode = exitCodes.interrupted;
    controller.abort();
  });
  process.on("SIGTERM", () => controller.abort());
  process.on("SIGHUP", () => controller.abort());
  return { signal: controller.signal, stop: () => controller.abort(), exitCode: () => exitCode };
}

/** Resolves when it is aborted. */
export function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
