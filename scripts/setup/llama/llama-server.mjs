/** A real llama-server: one that is named, one on PATH, the cache, or the best way of this system to get one. */
import { readFileSync } from "node:fs";
import { llamaServerDir } from "../cache.mjs";
import { findOnPath, isExecutable, run } from "../command.mjs";
import { SetupError } from "../steps.mjs";
import { cachedLlamaServer } from "./cached.mjs";
import { installFromDebian, wrapBench } from "./debian.mjs";
import { installRelease } from "./release.mjs";

/** Returns the path of a llama-server that has answered --version. */
export async function ensureLlamaServer({ progress, env = process.env }) {
  const named = env.METALBRIDGE_LLAMA_SERVER;
  if (named) {
    await mustAnswer(named, "METALBRIDGE_LLAMA_SERVER names");
    progress.cached("llama-server", named);
    return named;
  }
  const onPath = findOnPath("llama-server", env);
  if (onPath !== undefined && (await answers(onPath)) === undefined) {
    progress.cached("llama-server", onPath);
    return onPath;
  }
  const cache = llamaServerDir(env);
  const cached = cachedLlamaServer(cache);
  if (cached !== undefined) {
    wrapBench(cached);
    progress.cached("llama-server", cached);
    return cached;
  }
  const installed = await install(cache, progress, env);
  await mustAnswer(installed, "setup installed");
  return installed;
}

async function install(cache, progress, env) {
  const failures = [];
  const ways = isDebian() ? [installFromDebian, installRelease] : [installRelease];
  for (const way of ways) {
    try {
      return await progress.during("llama-server", way.label, () => way(cache, env));
    } catch (error) {
      if (!(error instanceof SetupError)) throw error;
      failures.push(error.message);
      progress.note(error.message);
    }
  }
  throw new SetupError("llama-server is needed and could not be provided", [
    ...(process.platform === "darwin" ? ["brew install llama.cpp"] : []),
    "install llama.cpp so that llama-server is on PATH",
    "or name the program in METALBRIDGE_LLAMA_SERVER",
    "or run setup again with access to a package mirror or to llama.cpp's releases",
  ]);
}

function isDebian() {
  if (process.platform !== "linux") return false;
  try {
    return /^ID="?debian"?$/m.test(readFileSync("/etc/os-release", "utf8"));
  } catch {
    return false;
  }
}

async function mustAnswer(program, who) {
  const problem = await answers(program);
  if (problem === undefined) return;
  throw new SetupError(`${who} ${program}, but it does not answer --version: ${problem}`, [
    "name a working llama-server in METALBRIDGE_LLAMA_SERVER, or unset the variable",
    "or remove that folder and run setup again",
  ]);
}

/** Undefined when it does, else why not. */
async function answers(program) {
  if (!isExecutable(program)) return "it is not an executable file";
  const result = await run(program, ["--version"], { timeoutMs: 20_000 });
  if (result.code === 0) return undefined;
  const [said = ""] = result.tail.split("\n");
  return `it ended with ${result.signal ?? `exit code ${result.code}`} ${said.slice(0, 200)}`.trim();
}
