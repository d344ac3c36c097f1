/** Runs programs to their end and keeps the end of what they said. */
import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

const TAIL_CHARACTERS = 4_000;

/** Resolves with { code, signal, stdout, tail }; never rejects for how the program ended. */
export function run(program, args, { cwd, env, timeoutMs = 0 } = {}) {
  return new Promise((resolve) => {
    const child = spawn(program, args, { cwd, env: env ?? process.env, stdio: ["ignore", "pipe", "pipe"] });
    let stdout = "";
    let tail = "";
    child.stdout.on("data", (chunk) => {
      stdout += chunk;
      tail = `${tail}${chunk}`.slice(-TAIL_CHARACTERS);
    });
    child.stderr.on("data", (chunk) => {
      tail = `${tail}${chunk}`.slice(-TAIL_CHARACTERS);
    });
    const timer = timeoutMs > 0 ? setTimeout(() => child.kill("SIGKILL"), timeoutMs) : undefined;
    const finish = (code, signal, more = "") => {
      clearTimeout(timer);
      resolve({ code, signal, stdout, tail: `${tail}${more}`.trim() });
    };
    child.once("error", (error) => finish(127, null, error.message));
    child.once("close", (code, signal) => finish(code, signal));
  });
}

export function isExecutable(file) {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Absolute path of a program on PATH. */
export function findOnPath(name, env = process.env) {
  return (env.PATH ?? "")
    .split(delimiter)
    .filter((folder) => folder !== "")
    .map((folder) => join(folder, name))
    .find(isExecutable);
}

/** One word of a POSIX shell script, whatever it holds. */
export function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
