/** What is asked about processes: the port that each system answers in its own way. */

/** A living process; zombies do not count as living. */
export interface LivingProcess {
  readonly pid: number;
  readonly startTime: string;
  readonly group: number;
  /** Session id, if the system reports it. */
  readonly session?: number;
}

/**
 * What a process does. stopped: by SIGSTOP, until another process continues it. asleep: no thread runs or waits for the disk.
 * busy: one does, as in a process that computes, or whose memory is being swapped in.
 */
export type Activity = "stopped" | "asleep" | "busy" | "unknown";

export interface IdentityReader {
  /** Start time of a living process, now: undefined if there is none, or only a zombie; "unknown" if it cannot be read. */
  readonly startTime: (pid: number) => Promise<string | undefined | "unknown">;
  /** The same for commands that do nothing else meanwhile: it blocks the process, on a Mac until `ps` has finished. */
  readonly startTimeNow: (pid: number) => string | undefined | "unknown";
  /** Those of `pids` that live; "unknown" if it cannot be read. */
  readonly observe: (pids: readonly number[]) => Promise<ReadonlyMap<number, LivingProcess> | "unknown">;
  /** All living processes whose group or session is `id`. */
  readonly members: (id: number) => Promise<readonly LivingProcess[] | "unknown">;
  /** All living processes that were started with `mark` (NAME=value) in their environment, as far as that can be seen. */
  readonly marked: (mark: string) => Promise<readonly LivingProcess[] | "unknown">;
  /** "unknown" if there is no such process, or it cannot be read. */
  readonly activity: (pid: number) => Promise<Activity>;
}
