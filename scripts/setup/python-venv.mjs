/** A program from the Python registry, in a virtual environment of the cache. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { findOnPath, run } from "./command.mjs";

/**
 * Optional: says what is skipped without the program, and never fails. `wanted`: `name`, `program`, `check` (an argument with
 * which the program starts and ends), `packages` for pip, `folder`, and `skipped`.
 */
export async function ensurePythonProgram(wanted, { progress, env }) {
  const { name, program, skipped } = wanted;
  const found = findPythonProgram(wanted, env);
  if (found !== undefined) return progress.cached(name, found);
  const python = findOnPath("python3", env);
  const problem =
    python === undefined
      ? "no python3 on PATH"
      : await progress.during(name, `pip install ${name} into the cache`, () => install(wanted, python, env));
  if (problem !== undefined) progress.note(`no ${program}: ${skipped}; ${problem}`);
}

/** The program of PATH or of a cache that was filled to its end; else undefined. */
export function findPythonProgram({ program, folder }, env) {
  const cached = join(folder, "bin", program);
  return findOnPath(program, env) ?? (existsSync(markOf(folder)) ? cached : undefined);
}

/** Undefined, or why not. A virtual environment cannot be moved, so a mark beside it says that it is whole. */
async function install({ program, check, packages, folder }, python, env) {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(dirname(folder), { recursive: true });
  for (const [command, ...args] of [
    [python, "-m", "venv", folder],
    [join(folder, "bin", "pip"), "install", "--quiet", ...packages],
    [join(folder, "bin", program), check],
  ]) {
    const { code, tail } = await run(command, args, { env, timeoutMs: 300_000 });
    if (code !== 0) return tail.split("\n").at(-1);
  }
  writeFileSync(markOf(folder), "");
  return undefined;
}

function markOf(folder) {
  return `${folder}.whole`;
}
