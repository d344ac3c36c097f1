/** Runs the system's own tools: a bounded child, its output as the result. */
import { execFile } from "node:child_process";

const TIMEOUT_MS = 60_000;

/** Rejects with what the program said. */
export function run(program: string, args: readonly string[], input = ""): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      program,
      [...args],
      { timeout: TIMEOUT_MS, maxBuffer: 16 << 20 },
      (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(new Error(`${program} ${args.join(" ")}: ${stderr.trim() || error.message}`));
      },
    );
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  });
}
