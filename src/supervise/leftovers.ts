/** Processes other than the main process: members of its session, and processes that carry its mark. */
import type { IdentityReader, LivingProcess } from "../macos/living-process.ts";
import { type RunFiles, runMark } from "./run-directory.ts";
import type { SignalResult } from "./supervised.ts";

/**
 * The living members of the session. If no session is known, because nothing was started or the folder of a running
 * process was removed: every process that carries its mark. A group id is not reused while a member is alive, so the
 * members are ours if the shim still leads them, or if this agent has watched the session since the shim was alive
 * (`isWatched`). Otherwise the id may have been reused by an unrelated process, and only marked processes count.
 */
export async function findSessionProcesses(
  identity: IdentityReader,
  dir: string,
  files: RunFiles,
  isWatched: boolean,
): Promise<readonly LivingProcess[] | "unknown"> {
  if (files.session === undefined) return identity.marked(runMark(dir));
  const { pid, startTime } = files.session;
  const members = await identity.members(pid);
  if (members === "unknown" || members.length === 0) return members;
  const leader = members.find((member) => member.pid === pid);
  if (leader !== undefined) return leader.startTime === startTime ? members : [];
  if (isWatched) return members;
  const marked = await identity.marked(runMark(dir));
  if (marked === "unknown") return marked;
  return members.filter((member) => isMain(files, member) || marked.some((one) => isSame(one, member)));
}

/** Kills the session and all marked processes. The start time of each is compared immediately before the signal. */
export async function killLeftovers(
  identity: IdentityReader,
  dir: string,
  files: RunFiles,
  isWatched: boolean,
): Promise<void> {
  const [session, marked] = await Promise.all([
    findSessionProcesses(identity, dir, files, isWatched),
    identity.marked(runMark(dir)),
  ]);
  for (const found of [session, marked]) {
    if (found === "unknown") continue;
    await Promise.all(found.map((one) => killIfSame(identity, one)));
  }
}

/** Sends a signal only if the process still has the given start time. */
export async function killIfSame(
  identity: IdentityReader,
  target: { readonly pid: number; readonly startTime: string },
  signal: NodeJS.Signals = "SIGKILL",
): Promise<SignalResult> {
  if (target.pid === process.pid) return "not running";
  const startTime = await identity.startTime(target.pid);
  if (startTime !== target.startTime) return startTime === "unknown" ? "unknown" : "not running";
  try {
    process.kill(target.pid, signal);
    return "sent";
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ESRCH" ? "not running" : "unknown";
  }
}

function isMain(files: RunFiles, one: LivingProcess): boolean {
  return files.main?.pid === one.pid && files.main.startTime === one.startTime;
}

function isSame(a: LivingProcess, b: LivingProcess): boolean {
  return a.pid === b.pid && a.startTime === b.startTime;
}
