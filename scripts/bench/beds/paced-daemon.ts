/** The daemon of workers/paced-daemon.ts as a process of its own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

export interface PacedDaemon extends AsyncDisposable {
  readonly port: number;
  /** As a host that loses power, but its connections are reset. */
  readonly kill: () => Promise<void>;
}

const WORKER = fileURLToPath(new URL("../workers/paced-daemon.ts", import.meta.url));

export async function startPacedDaemon(address = "127.0.0.1"): Promise<PacedDaemon> {
  const daemon = spawn(process.execPath, ["--import", "tsx", WORKER, address], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const [first] = await once(daemon.stdout, "data");
  const exited = once(daemon, "exit");
  return {
    port: Number(first),
    kill: async () => {
      daemon.kill("SIGKILL");
      await exited;
    },
    [Symbol.asyncDispose]: async () => {
      daemon.stdin.end();
      await exited;
    },
  };
}
