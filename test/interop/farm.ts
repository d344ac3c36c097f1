/** `npm start` as users run it, with a model that answers for as long as it is asked to, and a key. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { z } from "zod";
import { packageRoot } from "../../local/package-root.ts";
import { type RequestQueue, requestQueuesSchema } from "../../src/gateway/request-queues.ts";
import { until } from "../bed/until.ts";
import { runProgram } from "../cli/program.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

/** The service that `npm start` creates. It has one slot. */
export const SERVICE = "quickstart";

export interface Farm extends AsyncDisposable {
  /** The URL of the gateway, without a path. */
  readonly url: string;
  readonly kubeconfig: string;
  /** Folder of files that its engines may load. */
  readonly modelsDir: string;
  /** Runs `metalbridge` on its cluster; resolves with what it prints. */
  readonly run: (...args: string[]) => Promise<string>;
  readonly queue: () => Promise<Pick<RequestQueue, "waiting" | "slots">>;
  readonly metrics: () => Promise<string>;
}

/** Resolves once the model has answered. */
export async function startFarm(folder: string, userJwtSecret: string): Promise<Farm> {
  const model = path.join(folder, "slow.gguf");
  await writeTinyGguf(model, { endless: true, layers: 8, embeddingSize: 256, contextLength: 8192 });
  const secretFile = path.join(folder, "user-jwt-secret");
  writeFileSync(secretFile, userJwtSecret);
  const dir = path.join(folder, "state");
  const flags = ["--dir", dir, "--model", model, "--user-jwt-secret-file", secretFile];
  const child = spawn("npm", ["start", "--", ...flags], {
    cwd: packageRoot(),
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => (output += chunk));
  const ended = once(child, "exit");
  const stop = async (): Promise<void> => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    // Ctrl-C reaches every process of the terminal.
    process.kill(-child.pid, "SIGINT");
    await ended;
  };
  await using stack = new AsyncDisposableStack();
  stack.defer(stop);
  const text = await until(
    () => {
      if (!output.includes("Try next")) throw new Error(`npm start is not ready:\n${output.slice(-4_000)}`);
      return output;
    },
    { timeoutMs: 600_000, ended },
  );
  const [, url = ""] = /^ *One base URL .*: (http:\S+)\/v1$/m.exec(text) ?? [];
  const kubeconfig = path.join(dir, "control-plane", "kubeconfig");
  const health = healthOf(path.join(dir, "logs", "gateway.log"));
  stack.move();
  return {
    url,
    kubeconfig,
    modelsDir: path.join(dir, "models"),
    run: async (...args) => {
      const { code, stdout, stderr } = await runProgram(args, { kubeconfig });
      if (code !== 0) throw new Error(`metalbridge ${args.join(" ")}: ${stderr}`);
      return stdout.trim();
    },
    queue: async () => {
      const answer = await (await fetch(`${health}/queues`)).json();
      const { queues } = requestQueuesSchema.parse(answer);
      const idle = { waiting: 0, slots: { used: 0, total: 0 } };
      return queues.find(({ service }) => service === `default/${SERVICE}`) ?? idle;
    },
    metrics: async () => (await fetch(`${health}/metrics`)).text(),
    [Symbol.asyncDispose]: stop,
  };
}

/** Its port is a free one where another program has the usual one. */
function healthOf(logFile: string): string {
  const line = readFileSync(logFile, "utf8")
    .split("\n")
    .find((text) => text.includes('"gateway started"'));
  const { health } = z.object({ health: z.number() }).parse(JSON.parse(line ?? "{}"));
  return `http://127.0.0.1:${health}`;
}
