/** mlx_lm.server for one test of runtime generic: one on PATH, the cache, or a virtual environment filled from the Python registry. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath, run } from "./command.mjs";

const MLX = "0.32.4";
const MLX_LM = "0.32.2";
const PROGRAM = "mlx_lm.server";

/** Optional: says what is skipped without it, and never fails. */
export async function ensureMlxLm({ progress, env = process.env }) {
  const found = findMlxLm(env);
  if (found !== undefined) return progress.cached("mlx-lm", found);
  const python = findOnPath("python3", env);
  const problem =
    python === undefined
      ? "no python3 on PATH"
      : await progress.during("mlx-lm", "pip install mlx-lm into the cache", () => install(python, env));
  if (problem !== undefined)
    progress.note(`no ${PROGRAM}: the test that serves an MLX model is skipped; ${problem}`);
}

/** The program of PATH or of a cache that was filled to its end; else undefined. */
export function findMlxLm(env = process.env) {
  const cached = join(folderOf(env), "bin", PROGRAM);
  return findOnPath(PROGRAM, env) ?? (existsSync(markOf(env)) ? cached : undefined);
}

/** Undefined, or why not. A virtual environment cannot be moved, so a mark beside it says that it is whole. */
async function install(python, env) {
  const folder = folderOf(env);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(dirname(folder), { recursive: true });
  const mlx = process.platform === "darwin" ? "mlx" : "mlx[cpu]";
  const packages = [`${mlx}==${MLX}`, `mlx-lm==${MLX_LM}`];
  for (const [program, ...args] of [
    [python, "-m", "venv", folder],
    [join(folder, "bin", "pip"), "install", "--quiet", ...packages],
    [join(folder, "bin", PROGRAM), "--help"],
  ]) {
    const { code, tail } = await run(program, args, { env, timeoutMs: 300_000 });
    if (code !== 0) return tail.split("\n").at(-1);
  }
  writeFileSync(markOf(env), "");
  return undefined;
}

function folderOf(env) {
  return join(cacheDir(env), "mlx-lm", `${MLX_LM}-mlx-${MLX}`);
}

function markOf(env) {
  return `${folderOf(env)}.whole`;
}
