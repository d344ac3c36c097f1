/** Effect ports shared by agent and controller: everything that reads a clock or writes a log takes one of these. */

export interface Clock {
  /** Wall clock, milliseconds since the epoch: only for timestamps people read. */
  readonly nowMs: () => number;
  /** Monotonic clock in milliseconds: for every duration and deadline. */
  readonly monotonicMs: () => number;
  /** Calls `fire` once after `delayMs`; the result cancels it. */
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
