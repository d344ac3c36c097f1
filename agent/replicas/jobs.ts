/** Work that must not hold up a replica's queue: one at a time per name, and after a failure not again too soon. */
import type { Clock, Log } from "../../src/ports.ts";

const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 30_000;

export interface JobOptions {
  /** Nothing new for the planner comes of it. */
  readonly isSilent?: boolean;
}

export interface Jobs {
  /** Starts the work unless one of that name runs or its last failure is too fresh. The work answers whether it succeeded. */
  readonly run: (name: string, work: (signal: AbortSignal) => Promise<boolean>, options?: JobOptions) => void;
  readonly cancel: (name: string) => void;
  readonly isRunning: (name: string) => boolean;
}

interface Failure {
  readonly count: number;
  readonly notBefore: number;
}

/** `onDone` is called after each job that may have changed something; `onRetry` says when a failed one may run again. */
export function createJobs(ports: {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly onDone: () => void;
  readonly onRetry: (delayMs: number) => void;
}): Jobs {
  const running = new Map<string, AbortController>();
  const failures = new Map<string, Failure>();

  const fail = (name: string): void => {
    const count = (failures.get(name)?.count ?? 0) + 1;
    const delayMs = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(20, count - 1));
    failures.set(name, { count, notBefore: ports.clock.monotonicMs() + delayMs });
    ports.onRetry(delayMs);
  };
  const settle = async (
    name: string,
    work: (signal: AbortSignal) => Promise<boolean>,
    signal: AbortSignal,
  ): Promise<void> => {
    try {
      if (await work(signal)) failures.delete(name);
      else fail(name);
    } catch (err) {
      if (!signal.aborted) ports.log.warn({ err, job: name }, "a step failed unexpectedly");
      fail(name);
    }
  };
  return {
    run: (name, work, options = {}) => {
      const failure = failures.get(name);
      if (ports.signal.aborted || running.has(name)) return;
      if (failure !== undefined && ports.clock.monotonicMs() < failure.notBefore) return;
      const own = new AbortController();
      running.set(name, own);
      void settle(name, work, AbortSignal.any([ports.signal, own.signal])).then(() => {
        running.delete(name);
        if (options.isSilent !== true) ports.onDone();
      });
    },
    cancel: (name) => running.get(name)?.abort(),
    isRunning: (name) => running.has(name),
  };
}
