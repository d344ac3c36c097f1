import { readdirSync, readFileSync } from "node:fs";
import { until } from "./until.ts";

/** Signals a process. False where it has exited already. */
export function send(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

export function isAlive(pid: number): boolean {
  return send(pid, 0);
}

/** Resolves once each thread has stopped: on a busy machine some still run for a while after the signal. */
export async function freeze(pid: number): Promise<void> {
  process.kill(pid, "SIGSTOP");
  const tasks = `/proc/${pid}/task`;
  await until(() => {
    for (const task of readdirSync(tasks))
      if (!/^State:\tT/m.test(readFileSync(`${tasks}/${task}/status`, "utf8")))
        throw new Error(`thread ${task} of process ${pid} still runs`);
  });
}
