/** Identity from /proc: field 22 of stat (clock ticks since boot) with the boot id, which no clock change affects. */
import { readdirSync, readFileSync } from "node:fs";
import type { Activity, IdentityReader, LivingProcess } from "../../macos/living-process.ts";

export function createLinuxIdentity(proc = "/proc"): IdentityReader {
  const boot = readFileSync(`${proc}/sys/kernel/random/boot_id`, "utf8").trim();
  /** `hidden`: the result if this user may not read the file, for example because /proc hides processes of other users. */
  const read = <T = "unknown">(pid: number, hidden: T | "unknown" = "unknown") => {
    try {
      return parseStat(readFileSync(`${proc}/${pid}/stat`, "utf8"), boot);
    } catch (error) {
      if (isGone(error)) return undefined;
      return isForbidden(error) ? hidden : "unknown";
    }
  };
  const pids = () =>
    readdirSync(proc)
      .filter((name) => /^[0-9]+$/.test(name))
      .map(Number);
  /** "unknown" if one of our own processes may be missing: a missing process would count as exited. */
  const readAll = (of: readonly number[]): readonly LivingProcess[] | "unknown" => {
    const found = of.map((pid) => read(pid, "hidden"));
    return found.includes("unknown") ? "unknown" : found.filter((one) => typeof one === "object");
  };
  const startTimeNow = (pid: number) => {
    const found = read(pid);
    return typeof found === "object" ? found.startTime : found;
  };
  return {
    startTime: async (pid) => startTimeNow(pid),
    startTimeNow,
    observe: async (pids) => {
      const living = new Map<number, LivingProcess>();
      for (const pid of pids) {
        const found = read(pid);
        if (found === "unknown") return "unknown";
        if (found !== undefined) living.set(pid, found);
      }
      return living;
    },
    members: async (id) => {
      const found = readAll(pids());
      return found === "unknown"
        ? found
        : found.filter(({ group, session }) => group === id || session === id);
    },
    marked: async (mark) => {
      const all = pids();
      const environments = all.map((pid) => environment(proc, pid));
      if (environments.includes(undefined)) return "unknown";
      // Each start asks, so the text is searched before it is split.
      const isMarked = (text = "") => text.includes(mark) && text.split("\0").includes(mark);
      return readAll(all.filter((_, at) => isMarked(environments[at])));
    },
    activity: async (pid) => activityOf(`${proc}/${pid}/task`),
  };
}

/** Considers all threads, because the main thread often only waits for the others. */
function activityOf(tasks: string): Activity {
  try {
    const states = readdirSync(tasks).map((id) => fieldsOf(readFileSync(`${tasks}/${id}/stat`, "utf8"))[0]);
    if (states.includes("T")) return "stopped";
    return states.some((state) => state === "R" || state === "D") ? "busy" : "asleep";
  } catch {
    // For example because a thread has exited meanwhile.
    return "unknown";
  }
}

/** The name may hold spaces and brackets, so fields count from the last bracket: state, ppid, pgrp, session, … */
function fieldsOf(stat: string): readonly string[] {
  return stat
    .slice(stat.lastIndexOf(")") + 2)
    .trim()
    .split(" ");
}

function parseStat(text: string, boot: string): LivingProcess | undefined {
  const fields = fieldsOf(text);
  const [state, , group, session] = fields;
  if (state === undefined || state === "Z" || state === "X" || state === "x") return undefined;
  return {
    pid: Number.parseInt(text, 10),
    startTime: `${boot}:${fields[19]}`,
    group: Number(group),
    session: Number(session),
  };
}

/** Undefined if it cannot be read, empty if access is forbidden: a process of another user was not started by this agent. */
function environment(proc: string, pid: number): string | undefined {
  try {
    return readFileSync(`${proc}/${pid}/environ`, "utf8");
  } catch (error) {
    return isGone(error) || isForbidden(error) ? "" : undefined;
  }
}

function isGone(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === "ENOENT" || code === "ESRCH";
}

function isForbidden(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === "EACCES" || code === "EPERM";
}
