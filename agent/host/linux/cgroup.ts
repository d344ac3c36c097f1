/** Reads the tightest memory limit of this process, in either version of cgroups. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export interface GroupMemory {
  readonly limitBytes: number;
  readonly usedBytes: number;
  /** File pages that the kernel reclaims first: they are used, but available. */
  readonly reclaimableBytes: number;
}

interface CgroupFiles {
  readonly mount: string;
  readonly limit: string;
  readonly used: string;
  /** Key of memory.stat. */
  readonly reclaimable: string;
}

const V2: CgroupFiles = {
  mount: "/sys/fs/cgroup",
  limit: "memory.max",
  used: "memory.current",
  reclaimable: "inactive_file",
};
const V1: CgroupFiles = {
  mount: "/sys/fs/cgroup/memory",
  limit: "memory.limit_in_bytes",
  used: "memory.usage_in_bytes",
  reclaimable: "total_inactive_file",
};

/** Folders from a process's group up to the root, from the lines of `/proc/PID/cgroup`. Pure. */
export function groupFolders(
  text: string,
): readonly { readonly files: CgroupFiles; readonly folder: string }[] {
  return text.split("\n").flatMap((line) => {
    const [, controllers, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (path === undefined || controllers === undefined) return [];
    const isMemory = controllers.split(",").includes("memory");
    if (controllers !== "" && !isMemory) return [];
    const files = isMemory ? V1 : V2;
    const names = path.split("/").filter((name) => name !== "");
    return names.map((_, index) => {
      return { files, folder: join(files.mount, ...names.slice(0, names.length - index)) };
    });
  });
}

/** Undefined if no group of the process has a limit below `totalBytes`. */
export type ReadGroupMemory = (totalBytes: number) => GroupMemory | undefined;

/** The groups of a process do not change while it runs. Their limits may change, so those are read each time. */
export function createGroupMemoryReader(pid: number | "self"): ReadGroupMemory {
  const folders = groupFolders(readKernelFile(`/proc/${pid}/cgroup`) ?? "");
  return (totalBytes) => {
    let tightest: { readonly limitBytes: number; readonly group: (typeof folders)[number] } | undefined;
    for (const group of folders) {
      const limitBytes = parseBytes(readKernelFile(join(group.folder, group.files.limit)));
      if (limitBytes === undefined || limitBytes >= (tightest?.limitBytes ?? totalBytes)) continue;
      tightest = { limitBytes, group };
    }
    if (tightest === undefined) return undefined;
    const { files, folder } = tightest.group;
    const usedBytes = parseBytes(readKernelFile(join(folder, files.used)));
    if (usedBytes === undefined) return undefined;
    const stat = readKernelFile(join(folder, "memory.stat")) ?? "";
    const reclaimable = new RegExp(`^${files.reclaimable} (\\d+)$`, "m").exec(stat)?.[1];
    return { limitBytes: tightest.limitBytes, usedBytes, reclaimableBytes: Number(reclaimable ?? 0) };
  };
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
