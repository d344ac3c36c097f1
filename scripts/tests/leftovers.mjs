/**
 * The temporary folder of one run of tests. Whatever the tests start mentions it on its command line, so that nothing of a run
 * that was interrupted stays: neither programs that outlive their parent, as engines do, nor files.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Short: sockets lie below it, whose paths have at most 103 bytes. */
const PREFIX = "mbtest-";

/** Removes what dead runs have left, then makes the folder of this process. */
export function makeRunFolder(parent = tmpdir()) {
  for (const name of readdirSync(parent)) {
    const pid = name.startsWith(PREFIX) ? Number(name.slice(PREFIX.length)) : Number.NaN;
    if (Number.isInteger(pid) && !isAlive(pid)) removeRunFolder(join(parent, name));
  }
  const folder = join(parent, `${PREFIX}${process.pid}`);
  mkdirSync(folder, { recursive: true });
  return folder;
}

/** Kills what mentions the folder, and removes it. Returns the command lines of what it has killed. */
export function removeRunFolder(folder) {
  const killed = [];
  for (const { pid, command } of processesNaming(folder)) {
    try {
      process.kill(pid, "SIGKILL");
      killed.push(command);
    } catch {
      // It has exited.
    }
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  return killed;
}

function processesNaming(folder) {
  const listed = execFileSync("ps", ["-axww", "-o", "pid=,command="], {
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
  return listed
    .split("\n")
    .map((line) => /^\s*(\d+)\s+(.*)$/.exec(line))
    .filter((found) => found !== null)
    .map(([, pid, command]) => ({ pid: Number(pid), command }))
    .filter(({ pid, command }) => pid !== process.pid && mentions(command, folder));
}

/** Not a folder whose name only begins the same. */
function mentions(command, folder) {
  return command.includes(`${folder}/`) || command.includes(`${folder} `) || command.endsWith(folder);
}

function isAlive(pid) {
  if (existsSync("/proc/self")) return existsSync(`/proc/${pid}`);
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}
