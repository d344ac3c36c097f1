/** A lock file for a folder that several pods mount, so that one process at a time writes it. The holder renews the lock. */
import { randomUUID } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { waitMs } from "../../src/kube/wait.ts";
import { ifExists, systemCode } from "../../src/util/atomic-file.ts";
import { makeFolder } from "../../src/util/folder.ts";
import type { Clock, Log } from "../../src/util/ports.ts";

export interface FolderLock {
  readonly dir: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly renewMs?: number;
}

const LOCK_FILE = "lock";
const RENEW_MS = 5_000;
/** After this many missed renewals, the holder is considered dead. */
const MAX_MISSED = 6;

/**
 * Runs `use` while this process holds the lock. The signal of `use` aborts with `signal`, and also when another process has
 * taken the lock because this process was paused for too long. Rejects with the signal's reason.
 */
export async function withFolderLock<T>(
  lock: FolderLock,
  use: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { dir, clock, signal, renewMs = RENEW_MS } = lock;
  await makeFolder(dir);
  const token = randomUUID();
  await acquire(lock, token);
  const lost = new AbortController();
  let renewals = 0;
  let renewing = Promise.resolve();
  let cancel: () => void = () => {};
  const schedule = (): void => {
    cancel = clock.after(renewMs, () => {
      renewals += 1;
      renewing = renew(dir, token, renewals).then((isHolder) => {
        if (isHolder) schedule();
        else lost.abort(new MetalbridgeError("SourceStalled", `another process took the lock of ${dir}`));
      });
    });
  };
  schedule();
  try {
    return await use(AbortSignal.any([signal, lost.signal]));
  } finally {
    cancel();
    await renewing;
    cancel();
    if ((await holderOf(dir))?.startsWith(token)) await rm(join(dir, LOCK_FILE), { force: true });
  }
}

async function acquire(
  { dir, clock, log, signal, renewMs = RENEW_MS }: FolderLock,
  token: string,
): Promise<void> {
  let seen: string | undefined;
  let seenAtMs = 0;
  for (let isFirst = true; ; isFirst = false) {
    signal.throwIfAborted();
    if (await create(dir, `${token} 0`)) return;
    const holder = await holderOf(dir);
    if (holder === undefined) continue;
    if (isFirst) log.info({ folder: dir }, "another pod downloads to this folder; waiting for it");
    if (holder !== seen) {
      seen = holder;
      seenAtMs = clock.monotonicMs();
    } else if (clock.monotonicMs() - seenAtMs >= MAX_MISSED * renewMs) {
      log.warn({ folder: dir }, "the holder of the folder's lock no longer renews it; taking over");
      await removeStale(dir, seen);
      continue;
    }
    await waitMs(clock, renewMs / 5, signal);
  }
}

/** Returns false if another process holds the lock. */
async function create(dir: string, text: string): Promise<boolean> {
  try {
    await writeFile(join(dir, LOCK_FILE), text, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST") return false;
    throw error;
  }
}

function holderOf(dir: string): Promise<string | undefined> {
  return ifExists(readFile(join(dir, LOCK_FILE), "utf8"));
}

/** Returns false once another process holds the lock. */
async function renew(dir: string, token: string, count: number): Promise<boolean> {
  const fresh = join(dir, `${LOCK_FILE}.${token}`);
  try {
    if (!(await holderOf(dir))?.startsWith(token)) return false;
    await writeFile(fresh, `${token} ${count}`, { mode: 0o600 });
    await rename(fresh, join(dir, LOCK_FILE));
    return true;
  } catch {
    // On a full disk or a slow server the next renewal may succeed, and other processes tolerate several missed ones.
    return true;
  }
}

/** Two processes may find the same lock stale. A lock that was moved away and is not the stale one is restored. */
async function removeStale(dir: string, stale: string): Promise<void> {
  const aside = join(dir, `${LOCK_FILE}.${randomUUID()}`);
  try {
    await rename(join(dir, LOCK_FILE), aside);
    const moved = await readFile(aside, "utf8");
    if (moved !== stale) await create(dir, moved);
  } catch (error) {
    if (systemCode(error) !== "ENOENT") throw error;
  } finally {
    await rm(aside, { force: true });
  }
}
