/** One process at a time writes a folder that several pods mount: a lock file that its holder keeps alive. */
import { randomUUID } from "node:crypto";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { systemCode } from "../../src/util/atomic-file.ts";
import { makeFolder } from "../../src/util/folder.ts";
import type { Clock, Log } from "../../src/util/ports.ts";

export interface FolderLock {
  readonly dir: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly beatMs?: number;
}

const LOCK_FILE = "lock";
const BEAT_MS = 5_000;
/** Beats that a holder may miss: after that it was killed, or its node is gone. */
const MISSED_BEATS = 6;

/**
 * Runs `use` while no other process holds the folder. Its signal aborts with `signal`, and when another process has taken the
 * lock because this one was paused for too long. Rejects with the signal's reason.
 */
export async function withFolderLock<T>(
  lock: FolderLock,
  use: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { dir, clock, signal, beatMs = BEAT_MS } = lock;
  await makeFolder(dir);
  const token = randomUUID();
  await acquire(lock, token);
  const lost = new AbortController();
  let beats = 0;
  let beating = Promise.resolve();
  let cancel: () => void = () => {};
  const schedule = (): void => {
    cancel = clock.after(beatMs, () => {
      beats += 1;
      beating = beat(dir, token, beats).then((isHeld) => {
        if (isHeld) schedule();
        else lost.abort(new MetalbridgeError("SourceStalled", `another process took the lock of ${dir}`));
      });
    });
  };
  schedule();
  try {
    return await use(AbortSignal.any([signal, lost.signal]));
  } finally {
    cancel();
    await beating;
    cancel();
    if ((await holderOf(dir))?.startsWith(token)) await rm(join(dir, LOCK_FILE), { force: true });
  }
}

async function acquire(
  { dir, clock, log, signal, beatMs = BEAT_MS }: FolderLock,
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
    } else if (clock.monotonicMs() - seenAtMs >= MISSED_BEATS * beatMs) {
      log.warn({ folder: dir }, "the process that held the lock of the folder has stopped; taking over");
      await removeStale(dir, seen);
      continue;
    }
    await pause(clock, beatMs / 5, signal);
  }
}

/** False where another process has it. */
async function create(dir: string, text: string): Promise<boolean> {
  try {
    await writeFile(join(dir, LOCK_FILE), text, { flag: "wx", mode: 0o600 });
    return true;
  } catch (error) {
    if (systemCode(error) === "EEXIST") return false;
    throw error;
  }
}

async function holderOf(dir: string): Promise<string | undefined> {
  try {
    return await readFile(join(dir, LOCK_FILE), "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** False once another process has the lock. */
async function beat(dir: string, token: string, count: number): Promise<boolean> {
  const fresh = join(dir, `${LOCK_FILE}.${token}`);
  try {
    if (!(await holderOf(dir))?.startsWith(token)) return false;
    await writeFile(fresh, `${token} ${count}`, { mode: 0o600 });
    await rename(fresh, join(dir, LOCK_FILE));
    return true;
  } catch {
    // A full disk or a slow server: the next beat may succeed, and others wait for several.
    return true;
  }
}

/** Two processes may find the same lock stale: what is moved away and is not that one is put back. */
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

function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const cancel = clock.after(ms, resolve);
    signal.addEventListener("abort", () => {
      cancel();
      resolve();
    });
  });
}
