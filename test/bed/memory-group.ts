/** A cgroup of the test's own with a memory limit, in either version, below the one the test runs in. */
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createGroupMemoryReader, groupFolders } from "../../agent/host/linux/cgroup.ts";
import { until } from "./until.ts";

export interface MemoryGroup extends AsyncDisposable {
  readonly folder: string;
  readonly add: (pid: number) => void;
  readonly pids: () => readonly number[];
}

/** Undefined where this process may not make one: not Linux, not root, or a cgroup tree that is read-only. */
export function createMemoryGroup(limitBytes: number): MemoryGroup | undefined {
  const own = ownFolder();
  if (own === undefined) return undefined;
  const folder = join(own.folder, `metalbridge-test-${process.pid}-${Date.now()}`);
  try {
    mkdirSync(folder);
    writeFileSync(join(folder, own.limit), String(limitBytes));
  } catch {
    return undefined;
  }
  const pids = (): readonly number[] =>
    readFileSync(join(folder, "cgroup.procs"), "utf8").split("\n").filter(Boolean).map(Number);
  return {
    folder,
    pids,
    add: (pid) => writeFileSync(join(folder, "cgroup.procs"), String(pid)),
    [Symbol.asyncDispose]: async () => {
      await until(() => {
        for (const pid of pids()) process.kill(pid, "SIGKILL");
        rmdirSync(folder);
      });
    },
  };
}

/** Version 2 lets no process stand beside a controlled group, so there the new one goes next to the test's own. */
function ownFolder(): { readonly folder: string; readonly limit: string } | undefined {
  if (!existsSync("/proc/self/cgroup")) return undefined;
  const [nearest] = groupFolders(readFileSync("/proc/self/cgroup", "utf8"));
  if (nearest === undefined) return undefined;
  const { folder, files } = nearest;
  return { folder: files.limit === "memory.max" ? dirname(folder) : folder, limit: files.limit };
}

/** What a process of the group could still be given. */
export function availableTo(pid: number): { readonly availableBytes: number; readonly limitBytes: number } {
  const memory = createGroupMemoryReader(pid)(Number.MAX_SAFE_INTEGER);
  if (memory === undefined) throw new Error(`process ${pid} is in no group with a limit`);
  const { limitBytes, usedBytes, reclaimableBytes } = memory;
  return { limitBytes, availableBytes: limitBytes - usedBytes + reclaimableBytes };
}
