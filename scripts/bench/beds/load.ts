/** Load from a node's network, through kube-proxy, or from this machine, and what came of it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { measured, type ScenarioResult } from "./measurement.ts";

export interface LoadResponse {
  /** Wall time. */
  readonly startedAt: number;
  readonly ms: number;
  readonly error?: string;
}

export interface BackgroundLoad {
  readonly responses: readonly LoadResponse[];
  /** Sends nothing more; resolves when the last request has finished. Failures are printed: their causes are worth more than their number. */
  readonly stop: () => Promise<readonly LoadResponse[]>;
}

const WORKER = fileURLToPath(new URL("../workers/load.ts", import.meta.url));
export const REQUESTS_PER_S = 20;
const TOKENS = 8;

/** Resolves with the first response: kube-proxy follows a new Service within its sync period. */
export async function startLoad(namespace: string | undefined, url: string): Promise<BackgroundLoad> {
  const orders = [url, REQUESTS_PER_S, TOKENS].map(String);
  const worker = [process.execPath, "--import", "tsx", WORKER, ...orders];
  const inside = namespace === undefined ? [] : ["ip", "netns", "exec", namespace];
  const child = spawn("env", [...inside, ...worker], { stdio: ["pipe", "pipe", "inherit"] });
  const closed = once(child, "close");
  const responses: LoadResponse[] = [];
  let warmAt: number | undefined;
  const first = new Promise<void>((resolve) => {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const succeeded: LoadResponse = JSON.parse(line);
      if (succeeded.error === undefined) warmAt ??= succeeded.startedAt;
      if (warmAt === undefined || succeeded.startedAt < warmAt) return;
      responses.push(succeeded);
      resolve();
    });
  });
  await Promise.race([
    first,
    closed.then(() => Promise.reject(new Error("the load ended before a response"))),
  ]);
  return {
    responses,
    stop: async () => {
      child.stdin.end();
      await closed;
      for (const { startedAt, ms, error } of responses.filter(hasFailed))
        console.error(`${new Date(startedAt).toISOString()} failed after ${Math.round(ms)} ms: ${error}`);
      return responses;
    },
  };
}

function hasFailed({ error }: LoadResponse): boolean {
  return error !== undefined;
}

/** No request may fail. */
export function failedRequests(name: string, responses: readonly LoadResponse[]): ScenarioResult {
  return measured(`${name}: failed requests`, "requests", [responses.filter(hasFailed).length], { max: 0 });
}
