/** Listens to the kernel's connection tracking: where kube-proxy sent each connection of this namespace. */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";
import { type Answer, monotonicEpochMs } from "./ask.ts";

export interface Tracking {
  /** Connections that were opened before it are unknown. */
  readonly hasHeard: () => boolean;
  /** Where a request went that failed: `address:port` of the connection's other end, or undefined where no endpoint was chosen. */
  readonly endpointFor: (answer: Answer, startedAt: number) => Promise<string | undefined>;
}

/** What the kernel has said is read a moment later. */
const LATE_MS = 300;

/** The entry of a refused connection is gone at once: only whoever listens hears of it. Ends with this process. */
export function startTracking(): Tracking {
  const connections = createConnections();
  const child = spawn("conntrack", ["-E", "-e", "NEW", "-p", "tcp"], { stdio: ["ignore", "pipe", "ignore"] });
  process.once("exit", () => child.kill());
  createInterface({ input: child.stdout }).on("line", (line) => connections.note(line, monotonicEpochMs()));
  return {
    hasHeard: connections.hasAny,
    endpointFor: async ({ failure, localPort, idleMs }, startedAt) => {
      if (failure === "" || localPort === undefined) return undefined;
      await pause(LATE_MS);
      const wasOpenBefore = idleMs !== undefined;
      return connections.endpointOf(localPort, wasOpenBefore ? Number.NEGATIVE_INFINITY : startedAt);
    },
  };
}

/** The newest connection of each local port. conntrack never reports one that kube-proxy refused; its port had others. */
export function createConnections() {
  const newest = new Map<number, { readonly at: number; readonly endpoint: string }>();
  return {
    hasAny: () => newest.size > 0,
    note: (line: string, at: number): void => {
      const connection = parseConnection(line);
      if (connection !== undefined) newest.set(connection.localPort, { at, endpoint: connection.endpoint });
    },
    endpointOf: (localPort: number, openedSince: number): string | undefined => {
      const connection = newest.get(localPort);
      return connection === undefined || connection.at < openedSince ? undefined : connection.endpoint;
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
