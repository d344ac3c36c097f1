/** Programs that run models on this machine, by the names of its processes, or of files on a PATH. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { InstalledRuntime } from "../../src/api/node-report.ts";
import { TRACES } from "../../src/engines/traces.ts";
import { locateProgram } from "../engines/io/program.ts";

/** Whether they run or not; nothing is started. */
export async function runtimesOnPath(path: string): Promise<readonly { readonly name: string }[]> {
  const found = await Promise.all(
    TRACES.map(async ({ name, programs: [program] = [] }) => {
      if (program === undefined) return [];
      const file = await locateProgram(program, { paths: [], env: { PATH: path } });
      return file === undefined ? [] : [{ name }];
    }),
  );
  return found.flat();
}

/** `proc` may be that of another root; who owns the process does not matter. */
export async function runningRuntimes(proc: string): Promise<readonly InstalledRuntime[]> {
  const pids = (await readdir(proc).catch(() => [])).filter((name) => /^\d+$/.test(name));
  const names = await Promise.all(
    pids.map((pid) => readFile(join(proc, pid, "comm"), "utf8").catch(() => "")),
  );
  const found = new Set(
    names.flatMap((name) => TRACES.find(({ processes }) => processes?.test(name.trim()))?.name ?? []),
  );
  return [...found].sort().map((name) => ({ name }));
}
