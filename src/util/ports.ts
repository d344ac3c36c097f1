/** Ports that all parts share for reading a clock and writing a log. */

export interface Clock {
  /** Wall clock in milliseconds since the epoch, only for timestamps. */
  readonly nowMs: () => number;
  /** Monotonic clock in milliseconds, for every duration and deadline. */
  readonly monotonicMs: () => number;
  /** Calls `fire` once after `delayMs`. The result cancels the timer. */
  readonly after: (delayMs: number, fire: () => void) => () => void;
}

type LogLine = (data: object, message: string) => void;

/** The part of pino that we use. */
export interface Log {
  readonly debug: LogLine;
  readonly info: LogLine;
  readonly warn: LogLine;
  readonly error: LogLine;
  readonly child: (bindings: Record<string, unknown>) => Log;
}
