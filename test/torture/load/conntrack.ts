/** Listens to the kernel's connection tracking: where kube-proxy sent each connection of this namespace. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

export interface Tracking {
  /** `address:port` of the connection's other end, or undefined where no endpoint was chosen. */
  readonly endpointOf: (localPort: number) => Promise<string | undefined>;
}

/** What the kernel has said is read a moment later. */
const LATE_MS = 300;

/** The entry of a refused connection is gone at once: only whoever listens hears of it. Ends with this process. */
export function startTracking(): Tracking {
  const endpoints = new Map<number, string>();
  const child = spawn("conntrack", ["-E", "-e", "NEW", "-p", "tcp"], { stdio: ["ignore", "pipe", "ignore"] });
  process.once("exit", () => child.kill());
  createInterface({ input: child.stdout }).on("line", (line) => {
    const connection = parseConnection(line);
    if (connection !== undefined) endpoints.set(connection.localPort, connection.endpoint);
  });
  return {
    endpointOf: async (localPort) => {
      await pause(LATE_MS);
      return endpoints.get(localPort);
    },
  };
}

/** `… src=A dst=B sport=C dport=D … src=E dst=F sport=G dport=H`: the reply comes from E:G, which is not B where it was rewritten. */
export function parseConnection(line: string) {
  const match = / dst=(\S+) sport=(\d+) dport=\d+.*? src=(\S+) dst=\S+ sport=(\d+)/.exec(line);
  const [, asked, localPort, address, port] = match ?? [];
  if (address === undefined || address === asked) return undefined;
  return { localPort: Number(localPort), endpoint: `${address}:${port}` };
}
