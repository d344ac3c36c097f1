/** Identifies processes with `ps`. The start time is printed in UTC, so that it does not depend on the time zone. */
import { execFile, execFileSync } from "node:child_process";
import type { Activity, IdentityReader, LivingProcess } from "./living-process.ts";

/** One option per column, because some BSDs read everything after the first `=` as a heading. */
const COLUMNS = ["pid=", "pgid=", "stat=", "lstart="].flatMap((column) => ["-o", column]);
const TIMEOUT_MS = 5_000;
/** Fits every process with its complete environment. */
const MAX_BYTES = 64 << 20;
const ENV = { LC_ALL: "C", TZ: "UTC0", PATH: "/bin:/usr/bin" };

export function createDarwinIdentity(ps = "ps"): IdentityReader {
  return {
    startTimeNow: (pid) => {
      try {
        const text = execFileSync(ps, [...COLUMNS, "-p", String(pid)], {
          encoding: "utf8",
          env: ENV,
          timeout: TIMEOUT_MS,
          stdio: ["ignore", "pipe", "ignore"],
        });
        return parsePs(text)[0]?.startTime;
      } catch (error) {
        return (error as { status?: unknown }).status === 1 ? undefined : "unknown";
      }
    },
    startTime: async (pid) => {
      const text = await runPs(ps, [...COLUMNS, "-p", String(pid)]);
      return text === "unknown" ? text : parsePs(text)[0]?.startTime;
    },
    observe: async (pids) => {
      if (pids.length === 0) return new Map();
      const text = await runPs(ps, [...COLUMNS, "-p", pids.join(",")]);
      return text === "unknown" ? text : new Map(parsePs(text).map((found) => [found.pid, found]));
    },
    members: async (id) => {
      const text = await runPs(ps, ["-ax", ...COLUMNS]);
      return text === "unknown" ? text : parsePs(text).filter((found) => found.group === id);
    },
    marked: async (mark) => {
      const text = await runPs(ps, ["-Eaxww", "-o", "pid=", "-o", "command="]);
      if (text === "unknown") return text;
      const pids = text
        .split("\n")
        .filter((line) => ` ${line.trimEnd()} `.includes(` ${mark} `))
        .map((line) => Number.parseInt(line, 10));
      if (pids.length === 0) return [];
      const found = await runPs(ps, [...COLUMNS, "-p", pids.join(",")]);
      return found === "unknown" ? found : parsePs(found);
    },
    activity: async (pid) => activityOf((await runPs(ps, ["-o", "stat=", "-p", String(pid)])).trim()),
  };
}

/** `ps` shows the most active state of all threads: running, then waiting for the disk, then sleeping. */
function activityOf(stat: string): Activity {
  if (stat.startsWith("T")) return "stopped";
  if (/^[RUD]/.test(stat)) return "busy";
  return /^[SI]/.test(stat) ? "asleep" : "unknown";
}

/** `ps` exits with 1 if none of the pids exists, which is not a failure. */
function runPs(ps: string, args: readonly string[]): Promise<string | "unknown"> {
  return new Promise((resolve) => {
    execFile(ps, args, { env: ENV, timeout: TIMEOUT_MS, maxBuffer: MAX_BYTES }, (error, stdout) => {
      if (error === null || (error.code === 1 && !error.killed)) resolve(stdout);
      else resolve("unknown");
    });
  });
}

/** Parses lines `pid pgid stat lstart`. The start time has single spaces, so that it equals the time that the shim wrote. */
function parsePs(text: string): LivingProcess[] {
  return text.split("\n").flatMap((line) => {
    const match = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(\S.*?)\s*$/.exec(line);
    if (match === null || match[3]?.startsWith("Z")) return [];
    const startTime = (match[4] ?? "").replace(/\s+/g, " ");
    return [{ pid: Number(match[1]), group: Number(match[2]), startTime }];
  });
}
