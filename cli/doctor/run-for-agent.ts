/** Runs doctor for an agent in a separate process, which can be killed and whose memory is freed. */
import { spawn } from "node:child_process";
import type { AgentConfig } from "../../agent/config/schema.ts";

/** Time limit for doctor, which limits itself to 5 s but may take longer on a busy machine. */
const MAX_MS = 30_000;
const MAX_BYTES = 4 << 20;

/**
 * Checks `config`, with which the agent runs: the configuration file may have changed since then, and flags are in no file.
 * `file` is the path of that file. Resolves with the JSON report. Rejects if doctor does not finish in time.
 */
export function runDoctor(
  config: AgentConfig,
  { config: file }: { readonly config?: string },
  signal: AbortSignal,
): Promise<string> {
  const args = ["doctor", "--output", "json", "--config-on-stdin"];
  if (file !== undefined) args.push("--config", file);
  const program = process.argv[1] ?? "";
  return new Promise((resolve, reject) => {
    // A separate process group, so that killing it also kills the tools that doctor runs.
    const child = spawn(process.execPath, [program, ...args], {
      stdio: ["pipe", "pipe", "ignore"],
      detached: true,
    });
    const end = (): void => {
      if (child.pid !== undefined && child.exitCode === null) killGroup(child.pid);
    };
    const timer = setTimeout(end, MAX_MS);
    signal.addEventListener("abort", end, { once: true });
    const chunks: Buffer[] = [];
    let bytes = 0;
    child.stdout.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > MAX_BYTES) end();
      else chunks.push(chunk);
    });
    child.once("error", reject);
    // doctor may exit before it has read all input; `close` reports the exit.
    child.stdin.on("error", () => undefined);
    // Not passed as arguments, which every account can read, because the configuration may contain tokens.
    child.stdin.end(JSON.stringify(config));
    child.once("close", (code, killedBy) => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      const text = Buffer.concat(chunks).toString("utf8");
      if (killedBy === null && text !== "") resolve(text);
      else reject(new Error(`metalbridge doctor ended with ${killedBy ?? code} and without a report`));
    });
  });
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // It has exited.
  }
}
