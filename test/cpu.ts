/** CPU time of a worker with all that it has started, ended or not: what a test file costs. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import path from "node:path";

const PREFIX = "metalbridge-test-";

let group: { readonly usageFile: string } | undefined;

/** Seconds since the first call; undefined where this process may not make a cgroup: not Linux, or not root. */
export function cpuSeconds(): number | undefined {
  group ??= enterGroup();
  if (group === undefined) return undefined;
  const text = readFileSync(group.usageFile, "utf8");
  // Version 1 has nanoseconds, version 2 a line in microseconds.
  const microseconds = /^usage_usec (\d+)/m.exec(text)?.[1];
  return microseconds === undefined ? Number(text) / 1e9 : Number(microseconds) / 1e6;
}

/** What a member starts is a member too, also once its parent has exited. */
function enterGroup(): typeof group {
  try {
    const parent = ownFolder();
    if (parent === undefined) return undefined;
    removeEmpty(parent.folder);
    const folder = path.join(parent.folder, `${PREFIX}${process.pid}`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, "cgroup.procs"), String(process.pid));
    return { usageFile: path.join(folder, parent.usage) };
  } catch {
    return undefined;
  }
}

function ownFolder(): { readonly folder: string; readonly usage: string } | undefined {
  const groups = existsSync("/proc/self/cgroup") ? readFileSync("/proc/self/cgroup", "utf8") : "";
  const own = /^\d+:(?:[^:\n]*,)?cpuacct(?:,[^:\n]*)?:(.*)$/m.exec(groups)?.[1];
  if (own !== undefined) return { folder: path.join("/sys/fs/cgroup/cpuacct", own), usage: "cpuacct.usage" };
  const unified = /^0::(.*)$/m.exec(groups)?.[1];
  return unified === undefined
    ? undefined
    : { folder: path.join("/sys/fs/cgroup", unified), usage: "cpu.stat" };
}

/** Groups of earlier runs; one with members stays. */
function removeEmpty(folder: string): void {
  for (const name of readdirSync(folder)) {
    if (!name.startsWith(PREFIX)) continue;
    try {
      rmdirSync(path.join(folder, name));
    } catch {
      // In use.
    }
  }
}
