/** Runs doctor for an agent in a process of its own: its memory is freed, and it can be killed. */
import { spawn } from "node:child_process";
import type { AgentConfig } from "../../agent/config/schema.ts";

/** doctor limits itself to 5 s; on a busy machine each of its readings is late. */
const MAX_MS = 30_000;
const MAX_BYTES = 4 << 20;

/** Resolves with the JSON report, whatever its findings. Rejects if doctor does not end in time. */
export function runDoctor(
  config: AgentConfig,
  { config: file }: { readonly config?: string },
  signal: AbortSignal,
): Promise<string> {
  const { stateDir, hostName, platform, kubeconfig, context, addresses } = config;
  const given = Object.entries({
    config: file,
    kubeconfig,
    context,
    "host-name": hostName,
    platform,
    "state-dir": stateDir,
  });
  const args = given.flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag}`, value]));
  const address = addresses.length === 0 ? [] : ["--address", ...addresses];
  const program = process.argv[1] ?? "";
  return new Promise((resolve, reject) => {
    // A process group of its own: killing it also kills the tools that doctor runs.
    const child = spawn(process.execPath, [program, "doctor", "--output", "json", ...args, ...address], {
      stdio: ["ignore", "pipe", "ignore"],
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
