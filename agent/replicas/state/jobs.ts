/** Background work that must not block a replica's queue: one job at a time per name, with backoff after a failure. */
import { backoffMs } from "../../../src/util/backoff.ts";
import type { Clock, Log } from "../../../src/util/ports.ts";

/** Jitter of up to a fifth, so that hosts do not retry in step after an outage. */
const RETRY = { firstMs: 500, capMs: 30_000, jitter: [1, 1.2] } as const;

export interface JobOptions {
  /** The result is never news for the planner. */
  readonly isSilent?: boolean;
}

/** Resolves to whether the work succeeded; "unchanged" if it did and the planner would decide the same without it. */
type Work = (signal: AbortSignal) => Promise<boolean | "unchanged">;

export interface Jobs {
  /** Starts the work unless one of that name is running or in backoff. */
  readonly run: (name: string, work: Work, options?: JobOptions) => void;
  readonly cancel: (name: string) => void;
  /** Clears the backoff of these jobs, because the cause of their failure is resolved. */
  readonly clearBackoff: (names: readonly string[]) => void;
  readonly isRunning: (name: string) => boolean;
}

/** Number of failures of a job in a row, and the end of its backoff. */
interface JobBackoff {
  readonly count: number;
  readonly notBefore: number;
}

/** `onDone` is called after each job that may have changed something, `onRetry` with the delay before a failed job may run again. */
export function createJobs(ports: {
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly onDone: () => void;
  readonly onRetry: (delayMs: number) => void;
  readonly random?: () => number;
}): Jobs {
  const { random = Math.random } = ports;
  const running = new Map<string, AbortController>();
  const failures = new Map<string, JobBackoff>();

  const fail = (name: string): void => {
    const count = (failures.get(name)?.count ?? 0) + 1;
    const delayMs = backoffMs(count, RETRY, random());
    failures.set(name, { count, notBefore: ports.clock.monotonicMs() + delayMs });
    ports.onRetry(delayMs);
  };
  const settle = async (name: string, work: Work, signal: AbortSignal): Promise<boolean | "unchanged"> => {
    const result = await work(signal).catch((err: unknown) => {
      if (!signal.aborted) ports.log.warn({ err, job: name }, "a step failed unexpectedly");
      return false;
    });
    if (result === false) fail(name);
    else failures.delete(name);
    return result;
  };
  return {
    run: (name, work, options = {}) => {
      const failure = failures.get(name);
      if (ports.signal.aborted || running.has(name)) return;
      if (failure !== undefined && ports.clock.monotonicMs() < failure.notBefore) return;
      const own = new AbortController();
      running.set(name, own);
      void settle(name, work, AbortSignal.any([ports.signal, own.signal])).then((result) => {
        running.delete(name);
        if (options.isSilent !== true && result !== "unchanged") ports.onDone();
      });
    },
    cancel: (name) => running.get(name)?.abort(),
    clearBackoff: (names) => {
      for (const name of names) failures.delete(name);
    },
    isRunning: (name) => running.has(name),
  };
}
