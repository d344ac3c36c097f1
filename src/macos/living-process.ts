/** The port for reading processes, with one implementation per operating system. */

/** A running process. A zombie does not count as running. */
export interface LivingProcess {
  readonly pid: number;
  readonly startTime: string;
  readonly group: number;
  /** Session id, if the system reports it. */
  readonly session?: number;
}

/**
 * The activity of a process. stopped: by SIGSTOP, until another process continues it. asleep: no thread runs or waits for the
 * disk. busy: a thread runs or waits for the disk, for example while memory is swapped in.
 */
export type Activity = "stopped" | "asleep" | "busy" | "unknown";

export interface IdentityReader {
  /** Start time of a running process; undefined if there is none, or only a zombie; "unknown" if it cannot be read. */
  readonly startTime: (pid: number) => Promise<string | undefined | "unknown">;
  /** The synchronous version, for short commands. On a Mac it blocks until `ps` has finished. */
  readonly startTimeNow: (pid: number) => string | undefined | "unknown";
  /** The running processes among `pids`; "unknown" if they cannot be read. */
  readonly observe: (pids: readonly number[]) => Promise<ReadonlyMap<number, LivingProcess> | "unknown">;
  /** All running processes whose group or session is `id`. */
  readonly members: (id: number) => Promise<readonly LivingProcess[] | "unknown">;
  /** All running processes that were started with `mark` (NAME=value) in their environment, if the environment is readable. */
  readonly marked: (mark: string) => Promise<readonly LivingProcess[] | "unknown">;
  /** "unknown" if there is no such process, or it cannot be read. */
  readonly activity: (pid: number) => Promise<Activity>;
}
