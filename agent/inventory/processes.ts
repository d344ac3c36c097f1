/** Programs that run models on this machine, by the names of its processes, or of files on a PATH. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { InstalledRuntime } from "../../src/api/node-report.ts";
import { locateProgram } from "../engines/program.ts";

/** The kernel keeps 15 characters of a name. */
const RUNTIMES: readonly (readonly [comm: RegExp, runtime: string])[] = [
  [/^ollama$/, "ollama"],
  [/^llama-server$/, "llamacpp"],
  [/^omlx$/, "omlx"],
  [/^(lms|lm-studio|LM Studio)$/, "lmstudio"],
  [/^(vllm|VLLM::)/, "vllm"],
  [/^sglang/, "sglang"],
  [/^text-generation/, "tgi"],
];
const PROGRAMS: Readonly<Record<string, string>> = {
  ...{ "llama-server": "llamacpp", ollama: "ollama", omlx: "omlx", "mlx_lm.server": "mlx" },
  ...{ lms: "lmstudio", vllm: "vllm", ramalama: "ramalama" },
};

/** Whether they run or not; nothing is started. */
export async function runtimesOnPath(path: string): Promise<readonly { readonly name: string }[]> {
  const found = await Promise.all(
    Object.entries(PROGRAMS).map(async ([program, name]) => {
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
    names.flatMap((name) => RUNTIMES.find(([comm]) => comm.test(name.trim()))?.[1] ?? []),
  );
  return [...found].sort().map((name) => ({ name }));
}
