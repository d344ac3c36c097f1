/** Identity from /proc: field 22 of stat (clock ticks since boot) with the boot id, which no clock change can move. */
import { readdirSync, readFileSync } from "node:fs";
import type { Activity, IdentityReader, LivingProcess } from "../../../../src/macos/living-process.ts";

export function createLinuxIdentity(proc = "/proc"): IdentityReader {
  const boot = readFileSync(`${proc}/sys/kernel/random/boot_id`, "utf8").trim();
  const read = (pid: number): LivingProcess | undefined | "unknown" => {
    try {
      return parseStat(readFileSync(`${proc}/${pid}/stat`, "utf8"), boot);
    } catch (error) {
      return isGone(error) ? undefined : "unknown";
    }
  };
  const all = () =>
    readdirSync(proc)
      .filter((name) => /^[0-9]+$/.test(name))
      .map((name) => read(Number(name)))
      .filter((found) => typeof found === "object");
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
    members: async (id) => all().filter((found) => found.group === id || found.session === id),
    marked: async (mark) => all().filter((found) => environment(proc, found.pid).includes(mark)),
    activity: async (pid) => activityOf(`${proc}/${pid}/task`),
  };
}

/** Of all threads: the main one often only waits for the others. */
function activityOf(tasks: string): Activity {
  try {
    const states = readdirSync(tasks).map((id) => fieldsOf(readFileSync(`${tasks}/${id}/stat`, "utf8"))[0]);
    if (states.includes("T")) return "stopped";
    return states.some((state) => state === "R" || state === "D") ? "busy" : "asleep";
  } catch {
    // Also where a thread has exited meanwhile: something runs then.
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

/** Unreadable is empty: a process of another user was not started by us. */
function environment(proc: string, pid: number): string[] {
  try {
    return readFileSync(`${proc}/${pid}/environ`, "utf8").split("\0");
  } catch {
    return [];
  }
}

function isGone(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code;
  return code === "ENOENT" || code === "ESRCH";
}
