/** A Prometheus on loopback, on the shipped rules, that asks every second. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { stringify } from "yaml";
import { prometheusFolder } from "./promtool.ts";

/** A job as in `scrape_configs`. */
export interface Job {
  readonly job_name: string;
  readonly static_configs: readonly { readonly targets: readonly string[] }[];
  readonly [setting: string]: unknown;
}

export interface Prometheus extends AsyncDisposable {
  /** `data` of an answer of the HTTP API; an answer without success is an error with Prometheus' own words. */
  readonly ask: (path: string, parameters?: Readonly<Record<string, string>>) => Promise<unknown>;
  /** Warnings and errors in its log so far. */
  readonly complaints: () => readonly string[];
}

const GRACE_MS = 5_000;

/** Resolves once it answers requests. */
export async function startPrometheus(rulesFile: string, jobs: readonly Job[]): Promise<Prometheus> {
  const folder = await mkdtemp(path.join(tmpdir(), "mb-prometheus-"));
  const config = path.join(folder, "prometheus.yml");
  const global = { scrape_interval: "1s", scrape_timeout: "1s", evaluation_interval: "1s" };
  await writeFile(config, stringify({ global, rule_files: [rulesFile], scrape_configs: jobs }));
  const child = spawn(
    path.join(prometheusFolder ?? "", "prometheus"),
    [`--config.file=${config}`, `--storage.tsdb.path=${folder}/data`, "--web.listen-address=127.0.0.1:0"],
    { cwd: folder, stdio: ["ignore", "ignore", "pipe"] },
  );
  const ended = once(child, "exit");
  const complaints: string[] = [];
  let port = "";
  const lines = createInterface({ input: child.stderr });
  const ready = new Promise<void>((resolve) => {
    lines.on("line", (line) => {
      if (/level=(warn|error)/i.test(line)) complaints.push(line);
      port = /Listening on.* address=127\.0\.0\.1:(\d+)/.exec(line)?.[1] ?? port;
      if (line.includes("ready to receive web requests")) resolve();
    });
  });
  const dispose = async (): Promise<void> => {
    child.kill("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
    await ended;
    clearTimeout(late);
    await rm(folder, { recursive: true, force: true });
  };
  const isReady = await Promise.race([ready.then(() => true), ended.then(() => false)]);
  if (!isReady || port === "") {
    await dispose();
    throw new Error(`prometheus did not start: ${complaints.join("\n")}`);
  }
  return {
    ask: (route, parameters) => ask(`http://127.0.0.1:${port}/api/v1/${route}`, parameters),
    complaints: () => complaints,
    [Symbol.asyncDispose]: dispose,
  };
}

async function ask(url: string, parameters: Readonly<Record<string, string>> = {}): Promise<unknown> {
  const response = await fetch(`${url}?${new URLSearchParams(parameters)}`);
  const answer = (await response.json()) as { status: string; data?: unknown; error?: string };
  if (answer.status !== "success") throw new Error(`${JSON.stringify(parameters)}: ${answer.error}`);
  return answer.data;
}
