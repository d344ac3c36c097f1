/** Processes that still mention a folder, on Linux: what a demo or an agent must not leave behind. */
import { readdirSync, readFileSync } from "node:fs";

/** Command lines of living processes that name `folder`, this one excepted. */
export function processesNaming(folder: string): readonly string[] {
  return others()
    .map(commandLine)
    .filter((line) => line.includes(folder));
}

/** Pids of living processes whose command line names `folder` and holds `text`, but not `without`. */
export function pidsNaming(folder: string, text: string, without?: string): readonly number[] {
  return others()
    .filter((pid) => {
      const line = commandLine(pid);
      return line.includes(folder) && line.includes(text) && !(without && line.includes(without));
    })
    .map(Number);
}

function others(): readonly string[] {
  return readdirSync("/proc").filter((entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid);
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return ""; // ended while we looked
  }
}
