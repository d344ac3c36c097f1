/** ansible-core for the test that runs the example role on real hosts: one on PATH, the cache, or a virtual environment filled from the Python registry. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath, run } from "./command.mjs";

const VERSION = "2.19.14";
const PROGRAM = "ansible-playbook";

/** Optional: says what is skipped without it, and never fails. */
export async function ensureAnsible({ progress, env = process.env }) {
  const found = findAnsible(env);
  if (found !== undefined) return progress.cached("ansible", found);
  const python = findOnPath("python3", env);
  const problem =
    python === undefined
      ? "no python3 on PATH"
      : await progress.during("ansible", "pip install ansible-core into the cache", () =>
          install(python, env),
        );
  if (problem !== undefined)
    progress.note(`no ${PROGRAM}: the test of the example role is skipped; ${problem}`);
}

/** The program of PATH or of a cache that was filled to its end; else undefined. */
export function findAnsible(env = process.env) {
  const cached = join(folderOf(env), "bin", PROGRAM);
  return findOnPath(PROGRAM, env) ?? (existsSync(markOf(env)) ? cached : undefined);
}

/** Undefined, or why not. A virtual environment cannot be moved, so a mark beside it says that it is whole. */
async function install(python, env) {
  const folder = folderOf(env);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(dirname(folder), { recursive: true });
  for (const [program, ...args] of [
    [python, "-m", "venv", folder],
    [join(folder, "bin", "pip"), "install", "--quiet", `ansible-core==${VERSION}`],
    [join(folder, "bin", PROGRAM), "--version"],
  ]) {
    const { code, tail } = await run(program, args, { env, timeoutMs: 300_000 });
    if (code !== 0) return tail.split("\n").at(-1);
  }
  writeFileSync(markOf(env), "");
  return undefined;
}

function folderOf(env) {
  return join(cacheDir(env), "ansible", VERSION);
}

function markOf(env) {
  return `${folderOf(env)}.whole`;
}
