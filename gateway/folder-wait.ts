/** Waits while the disk refuses the gateway's files, instead of exiting. */
import { describeError, type ErrorCode, MetalbridgeError } from "../src/api/errors.ts";
import { systemCode } from "../src/util/atomic-file.ts";
import { backoffMs } from "../src/util/backoff.ts";
import { errorMessage } from "../src/util/error-message.ts";
import type { Clock, Log } from "../src/util/ports.ts";

export interface FolderWait {
  /**
   * Repeats the work while the disk refuses it. The signal ends what a failed attempt has opened. Resolves to undefined if the
   * gateway stops meanwhile. Throws StateFolderUnusable if waiting cannot help, and all other errors of the work.
   */
  readonly until: <T>(work: (signal: AbortSignal) => Promise<T>) => Promise<T | undefined>;
  /** Reason of the current wait; undefined while it does not wait. */
  readonly waitsFor: () => string | undefined;
}

export interface FolderWaitPorts {
  readonly folder: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Lifetime of everything that the work opens. */
  readonly signal: AbortSignal;
  /** Ends the wait. */
  readonly stopping: AbortSignal;
}

const RETRIES = { firstMs: 500, capMs: 5_000 };
const FULL: readonly (string | undefined)[] = ["ENOSPC", "EDQUOT"];
const FAILING: readonly (string | undefined)[] = ["EIO", "EROFS"];
/** Only another folder or other permissions help. */
const REFUSED: readonly (string | undefined)[] = ["EACCES", "EPERM", "EEXIST", "ENOTDIR"];

export function createFolderWait(ports: FolderWaitPorts): FolderWait {
  const { folder, log, signal, stopping } = ports;
  let waitsFor: string | undefined;
  const note = (err: unknown): void => {
    const found = findingOf(err, folder);
    if (waitsFor !== found.waitsFor)
      log.warn({ code: found.error.code, err, folder }, describeError(found.error));
    waitsFor = found.waitsFor;
  };
  return {
    waitsFor: () => waitsFor,
    until: async (work) => {
      for (let failures = 1; ; failures += 1) {
        const attempt = new AbortController();
        try {
          const result = await work(AbortSignal.any([signal, attempt.signal]));
          if (waitsFor !== undefined) log.info({ folder }, "the folder of the gateway is writable again");
          waitsFor = undefined;
          return result;
        } catch (error) {
          attempt.abort();
          note(error);
        }
        await pause(ports, backoffMs(failures, RETRIES));
        if (stopping.aborted) return undefined;
      }
    },
  };
}

/** Throws unless waiting may help. */
function findingOf(
  cause: unknown,
  folder: string,
): { readonly error: MetalbridgeError; readonly waitsFor: string } {
  const code = systemCode(cause);
  const errorOf = (known: ErrorCode, message: string, summary?: string) =>
    new MetalbridgeError(known, message, summary === undefined ? undefined : { summary }, { cause });
  if (FULL.includes(code))
    return {
      error: errorOf(
        "StateDiskFull",
        `the gateway waits for space in ${folder}: its disk is full`,
        "free space on that disk; the gateway retries automatically",
      ),
      waitsFor: `space in ${folder}`,
    };
  const message = `the gateway cannot write in ${folder}: ${errorMessage(cause)}`;
  if (FAILING.includes(code))
    return {
      error: errorOf("StateFolderUnusable", message, "repair that disk; the gateway retries automatically"),
      waitsFor: `a writable disk: ${folder}`,
    };
  if (REFUSED.includes(code)) throw errorOf("StateFolderUnusable", message);
  throw cause;
}

function pause({ clock, stopping }: FolderWaitPorts, ms: number): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      cancel();
      stopping.removeEventListener("abort", end);
      resolve();
    };
    const cancel = clock.after(ms, end);
    stopping.addEventListener("abort", end, { once: true });
    if (stopping.aborted) end();
  });
}
