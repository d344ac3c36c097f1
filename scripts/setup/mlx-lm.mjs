/** mlx_lm.server for one test of runtime generic. */
import { join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { ensurePythonProgram, findPythonProgram } from "./python-venv.mjs";

const MLX = "0.32.4";
const MLX_LM = "0.32.2";

export function ensureMlxLm({ progress, env = process.env }) {
  return ensurePythonProgram(mlxLm(env), { progress, env });
}

export function findMlxLm(env = process.env) {
  return findPythonProgram(mlxLm(env), env);
}

function mlxLm(env) {
  const mlx = process.platform === "darwin" ? "mlx" : "mlx[cpu]";
  return {
    name: "mlx-lm",
    program: "mlx_lm.server",
    check: "--help",
    packages: [`${mlx}==${MLX}`, `mlx-lm==${MLX_LM}`],
    folder: join(cacheDir(env), "mlx-lm", `${MLX_LM}-mlx-${MLX}`),
    skipped: "the test that serves an MLX model is skipped",
  };
}
