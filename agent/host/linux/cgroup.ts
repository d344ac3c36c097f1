/** The tightest memory limit that applies to this process, in either version of cgroups. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface GroupMemory {
  readonly limitBytes: number;
  readonly usedBytes: number;
  /** File pages that the kernel reclaims first: used, but available. */
  readonly reclaimableBytes: number;
}

interface Dialect {
  readonly mount: string;
  readonly limit: string;
  readonly used: string;
  /** Key of memory.stat. */
  readonly reclaimable: string;
}

const V2: Dialect = {
  mount: "/sys/fs/cgroup",
  limit: "memory.max",
  used: "memory.current",
  reclaimable: "inactive_file",
};
const V1: Dialect = {
  mount: "/sys/fs/cgroup/memory",
  limit: "memory.limit_in_bytes",
  used: "memory.usage_in_bytes",
  reclaimable: "total_inactive_file",
};

/** Folders from a process's group up to the root, by the lines of `/proc/PID/cgroup`. Pure. */
export function groupFolders(
  text: string,
): readonly { readonly dialect: Dialect; readonly folder: string }[] {
  return text.split("\n").flatMap((line) => {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (path === undefined || controllers === undefined) return [];
    const isMemory = controllers.split(",").includes("memory");
    if (controllers !== "" && !isMemory) return [];
    const dialect = isMemory ? V1 : V2;
    const names = path.split("/").filter((name) => name !== "");
    return names.map((_, index) => {
      return { dialect, folder: join(dialect.mount, ...names.slice(0, names.length - index)) };
    });
  });
}

export interface GroupMemoryReader {
  /** Undefined where no group of the process has a limit below `totalBytes`. */
  readonly read: (totalBytes: number) => GroupMemory | undefined;
}

/** The groups of a process do not change while it runs; their limits may, so those are read each time. */
export function createGroupMemoryReader(pid: number | "self"): GroupMemoryReader {
  const folders = groupFolders(readKernelFile(`/proc/${pid}/cgroup`) ?? "");
  return { read: (totalBytes) => readTightest(folders, totalBytes) };
}

function readTightest(folders: ReturnType<typeof groupFolders>, totalBytes: number): GroupMemory | undefined {
  let tightest: { readonly limitBytes: number; readonly at: (typeof folders)[number] } | undefined;
  for (const at of folders) {
    const limitBytes = parseBytes(readKernelFile(join(at.folder, at.dialect.limit)));
    if (limitBytes === undefined || limitBytes >= (tightest?.limitBytes ?? totalBytes)) continue;
    tightest = { limitBytes, at };
  }
  if (tightest === undefined) return undefined;
  const { dialect, folder } = tightest.at;
  const usedBytes = parseBytes(readKernelFile(join(folder, dialect.used)));
  if (usedBytes === undefined) return undefined;
  const stat = readKernelFile(join(folder, "memory.stat")) ?? "";
  const reclaimable = new RegExp(`^${dialect.reclaimable} (\\d+)$`, "m").exec(stat)?.[1];
  return { limitBytes: tightest.limitBytes, usedBytes, reclaimableBytes: Number(reclaimable ?? 0) };
}

/** "max" and version 1's largest number mean no limit; the caller compares with the machine's memory. */
function parseBytes(text: string | undefined): number | undefined {
  const value = text?.trim();
  return value !== undefined && /^\d+$/.test(value) ? Number(value) : undefined;
}

export function readKernelFile(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
