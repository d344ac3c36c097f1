/** The daemon of workers/paced-daemon.ts as a process of its own. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

export interface PacedDaemon extends AsyncDisposable {
  readonly port: number;
}

const WORKER = fileURLToPath(new URL("../workers/paced-daemon.ts", import.meta.url));

export async function startPacedDaemon(address = "127.0.0.1"): Promise<PacedDaemon> {
  const daemon = spawn(process.execPath, ["--import", "tsx", WORKER, address], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const [first] = await once(daemon.stdout, "data");
  return {
    port: Number(first),
    [Symbol.asyncDispose]: async () => {
      const ended = once(daemon, "exit");
      daemon.stdin.end();
      await ended;
    },
  };
}
