/** Programs from the Python registry that only tests need, each in a virtual environment of the cache. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { findOnPath, run } from "./command.mjs";

const ANSIBLE = "2.19.14";
const MLX = "0.32.4";
const MLX_LM = "0.32.2";

/** For the test that runs the example role on real hosts. */
export const { find: findAnsible, ensure: ensureAnsible } = pythonProgram({
  name: "ansible-core",
  program: "ansible-playbook",
  check: "--version",
  packages: [`ansible-core==${ANSIBLE}`],
  folder: join("ansible", ANSIBLE),
  skipped: "the test of the example role is skipped",
});

/** For one test of runtime generic. */
export const { find: findMlxLm, ensure: ensureMlxLm } = pythonProgram({
  name: "mlx-lm",
  program: "mlx_lm.server",
  check: "--help",
  packages: [`${process.platform === "darwin" ? "mlx" : "mlx[cpu]"}==${MLX}`, `mlx-lm==${MLX_LM}`],
  folder: join("mlx-lm", `${MLX_LM}-mlx-${MLX}`),
  skipped: "the test that serves an MLX model is skipped",
});

/** `check` is an argument with which the program starts and exits; `folder` is relative to the cache. */
function pythonProgram({ name, program, check, packages, folder, skipped }) {
  const folderIn = (env) => join(cacheDir(env), folder);

  /** The program of PATH or of a cache that was filled to its end; else undefined. */
  const find = (env = process.env) => {
    const cached = join(folderIn(env), "bin", program);
    return findOnPath(program, env) ?? (existsSync(markOf(folderIn(env))) ? cached : undefined);
  };

  /** Optional: prints what is skipped without the program, and never fails. */
  const ensure = async ({ progress, env = process.env }) => {
    const found = find(env);
    if (found !== undefined) return progress.cached(name, found);
    const python = findOnPath("python3", env);
    const install = () => installInto(folderIn(env), { program, check, packages }, python, env);
    const problem =
      python === undefined
        ? "no python3 on PATH"
        : await progress.during(name, `pip install ${name} into the cache`, install);
    if (problem !== undefined) progress.note(`no ${program}: ${skipped}; ${problem}`);
  };
  return { find, ensure };
}

/** Undefined, or why it failed. A virtual environment cannot be moved, so a mark beside it says that it is complete. */
async function installInto(folder, { program, check, packages }, python, env) {
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
