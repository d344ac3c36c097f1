/** Runs doctor for an agent in a process of its own: its memory is freed, and it can be killed. */
import { spawn } from "node:child_process";
import type { AgentConfig } from "../../agent/config/schema.ts";

/** doctor limits itself to 5 s; on a busy machine each of its readings is late. */
const MAX_MS = 30_000;
const MAX_BYTES = 4 << 20;

/**
 * Checks `config`, which the agent runs with: its file may have changed since it started, and its flags are in no file. `file` is
 * where it came from. Resolves with the JSON report, whatever its findings. Rejects if doctor does not end in time.
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
    // A process group of its own: killing it also kills the tools that doctor runs.
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
    // A doctor that has exited before it has read all of it; `close` says how it ended.
    child.stdin.on("error", () => undefined);
    // Not as arguments, which every account of the machine can read: it may hold tokens.
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
