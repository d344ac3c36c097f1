/** One control group per node, in each hierarchy of cgroup v1: kubelet puts all its pods below it. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { until } from "../until.ts";

const ROOT = "/sys/fs/cgroup";
const HIERARCHIES = ["cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd"];

/** Undefined where a node can have its groups. */
export function whyNoCgroups(): string | undefined {
  if (existsSync(path.join(ROOT, "cgroup.controllers")))
    return "the real node was only tried with cgroup v1, and this machine has v2";
  const missing = HIERARCHIES.filter((name) => !existsSync(path.join(ROOT, name, "cgroup.procs")));
  if (missing.length > 0) return `cgroup v1 hierarchies are missing: ${missing.join(", ")}`;
  const probe = path.join(ROOT, "pids", `mbtest-probe-${process.pid}`);
  try {
    mkdirSync(probe);
    rmdirSync(probe);
    return undefined;
  } catch (error) {
    return `control groups cannot be made: ${error instanceof Error ? error.message : String(error)}`;
  }
}

export function makeCgroups(name: string): void {
  for (const hierarchy of HIERARCHIES) mkdirSync(path.join(ROOT, hierarchy, name), { recursive: true });
  // Empty in a new group, and then no process may enter it.
  for (const file of ["cpuset.cpus", "cpuset.mems"]) {
    const allowed = readFileSync(path.join(ROOT, "cpuset", file), "utf8");
    writeFileSync(path.join(ROOT, "cpuset", name, file), allowed);
  }
}

/** Once the processes in them are gone; runc makes them in all hierarchies there are. */
export async function removeCgroups(name: string): Promise<void> {
  for (const hierarchy of readdirSync(ROOT)) await removeTree(path.join(ROOT, hierarchy, name));
}

/** Names of all groups at the top, of nodes or not. */
export function listCgroups(): readonly string[] {
  if (!existsSync(ROOT)) return [];
  return [...new Set(readdirSync(ROOT).flatMap((hierarchy) => foldersIn(path.join(ROOT, hierarchy))))];
}

/** The folder of a container's group, somewhere below the node's. */
export function findCgroup(name: string, last: string): string | undefined {
  const below = (folder: string): string | undefined => {
    for (const child of foldersIn(folder)) {
      if (child === last) return path.join(folder, child);
      const found = below(path.join(folder, child));
      if (found !== undefined) return found;
    }
    return undefined;
  };
  return below(path.join(ROOT, "memory", name));
}

export interface ContainerMemory {
  readonly rssMegabytes: number;
  /** With the program files that it was the first of its node to read. */
  readonly workingSetMegabytes: number;
}

/** As the kubelet counts it, by a process of the container, as this machine numbers it. */
export function containerMemory(pid: number): ContainerMemory {
  const group = /:memory:(.*)/.exec(readFileSync(`/proc/${pid}/cgroup`, "utf8"))?.[1] ?? "";
  const read = (file: string) => readFileSync(path.join(ROOT, "memory", group, file), "utf8");
  const stat = read("memory.stat");
  const bytes = (name: string) => Number(new RegExp(`^total_${name} (\\d+)`, "m").exec(stat)?.[1]);
  const workingSet = Number(read("memory.usage_in_bytes")) - bytes("inactive_file");
  return { rssMegabytes: bytes("rss") / 1e6, workingSetMegabytes: workingSet / 1e6 };
}

/** Names of the folders in one, such as groups in a group; none where it has gone. */
export function foldersIn(folder: string): readonly string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  } catch {
    return [];
  }
}

/** Processes of a group, as this machine numbers them; none where it has gone. */
export function pidsIn(group: string): readonly number[] {
  try {
    const lines = readFileSync(path.join(group, "cgroup.procs"), "utf8").split("\n");
    return lines.filter((line) => line !== "").map(Number);
  } catch {
    return [];
  }
}

async function removeTree(folder: string): Promise<void> {
  for (const name of foldersIn(folder)) await removeTree(path.join(folder, name));
  // A killed process counts until it has been reaped.
  await until(() => existsSync(folder) && rmdirSync(folder), { everyMs: 20 });
}
