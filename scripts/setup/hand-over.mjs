/** Runs a program with the Node that setup chose, tied to this process so that it never outlives it. */
import { spawn } from "node:child_process";
import { constants } from "node:os";
import { join } from "node:path";
import { ensureParts, root } from "./parts.mjs";
import { runMain } from "./steps.mjs";

/** Runs a TypeScript program of the repository with every part; for the command line of `npm run`. */
export async function runProgram(...place) {
  await runMain(async (args) => {
    const { node, llamaServer } = await ensureParts({ purpose: "system" });
    const env = { ...process.env, METALBRIDGE_LLAMA_SERVER: llamaServer };
    return await handOver(node, ["--import", "tsx", join(root, ...place), ...args], { env });
  });
}

/**
 * Resolves with the exit code. The program follows a pipe on descriptor 3 (see cli/metalbridge.mjs): when this process
 * is killed the pipe ends, and the program stops in good order.
 */
export function handOver(node, args, { env = process.env, cwd } = {}) {
  const child = spawn(node, args, {
    cwd,
    stdio: ["inherit", "inherit", "inherit", "pipe"],
    // With our pid, because programs further down inherit the variable but not the pipe.
    env: { ...env, METALBRIDGE_LIFELINE: `3:${process.pid}` },
  });
  // A terminal sends them to the child as well, which takes the second for the first; `kill` sends them to us alone.
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("exit", (code, signal) => resolve(code ?? 128 + (constants.signals[signal] ?? 0)));
  });
}
