/** Finds programs on this machine that run models, by the names of processes, or of files on a PATH. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { InstalledRuntime } from "../../src/api/node-report.ts";
import { TRACES } from "../../src/engines/traces.ts";
import { locateProgram } from "../engines/driver/program.ts";

/** Finds installed programs, running or not; starts none. */
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

/** `proc` may be that of another root; processes of all users count. */
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
