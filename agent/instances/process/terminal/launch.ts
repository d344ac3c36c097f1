/** Starts a program in a terminal: a small process under the shim holds the terminal and outlives the agent. */
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import type { RotationLimits } from "../../../../src/supervise/log-rotation.ts";
import { MARK_VARIABLE, runMarkOf, TERMINAL_LAUNCH } from "../../../../src/supervise/run-directory.ts";
import { SHIM_FUNCTIONS } from "../../../../src/supervise/shim-script.ts";
import type { ProcessCommand } from "../../../../src/supervise/supervised.ts";

/** Flags that save memory, which the models need. */
const NODE_FLAGS = [
  "--single-threaded-gc",
  "--optimize-for-size",
  "--v8-pool-size=1",
  "--max-semi-space-size=2",
];

const launchSchema = z.object({
  argv: z.array(z.string()),
  env: z.record(z.string(), z.string()),
  logLimits: z.object({ maxBytes: z.number(), keep: z.number() }),
});
type TerminalLaunch = z.output<typeof launchSchema>;

/**
 * Writes the command that the terminal's process must run. The program's environment is passed in a file: a service's variables
 * must not reach Node, and every user can read arguments.
 */
export function prepareTerminal(
  dir: string,
  { argv, env }: ProcessCommand,
  logLimits: RotationLimits,
): Pick<ProcessCommand, "argv" | "env"> {
  const launch: TerminalLaunch = {
    argv: [...argv],
    env: { ...env, [MARK_VARIABLE]: runMarkOf(dir) },
    logLimits,
  };
  const path = join(dir, TERMINAL_LAUNCH);
  rmSync(path, { force: true });
  writeFileSync(path, JSON.stringify(launch), { mode: 0o600 });
  return { argv: [process.execPath, ...NODE_FLAGS, entryPath(), dir], env: { MALLOC_ARENA_MAX: "1" } };
}

/** Reads the file and removes it, because it may contain secrets. */
export function consumeLaunch(dir: string): TerminalLaunch {
  const path = join(dir, TERMINAL_LAUNCH);
  const launch = launchSchema.parse(JSON.parse(readFileSync(path, "utf8")));
  rmSync(path);
  return launch;
}

/**
 * Called as `sh -c … PROGRAM_SCRIPT DIR PROGRAM ARGS…` in the new terminal. Node closes the FIFO that shows that the engine is
 * alive, so the script opens it again, for reading and writing, which does not wait for a reader.
 */
export const PROGRAM_SCRIPT = `dir=$1
shift
${SHIM_FUNCTIONS}
exec 9<>"$dir/alive"
read_start $$
publish program "$$ $start" || exit 1
exec "$@"
`;

/** The entry point: next to this file when run from sources, next to the bundle in a release. */
function entryPath(): string {
  const moduleUrl = import.meta.url;
  const inBundle = moduleUrl.includes("/chunks/") ? "../terminal.mjs" : "./terminal.mjs";
  return fileURLToPath(new URL(moduleUrl.endsWith(".ts") ? "./main.ts" : inBundle, moduleUrl));
}
