/** Prometheus' own checker, as setup or this machine provides it. */
import { spawn } from "node:child_process";
import path from "node:path";
import { findPrometheus } from "../../../scripts/setup/prometheus/find.mjs";

/** The folder with prometheus and promtool; undefined where there is none, and the tests that need it are skipped. */
export const prometheusFolder: string | undefined = findPrometheus();

/** What its absence is called in the name of a test. */
export const needsPrometheus =
  prometheusFolder === undefined ? " (needs prometheus: npm run setup -- --for test)" : "";

export interface Verdict {
  readonly code: number | null;
  /** Both streams. */
  readonly output: string;
}

export function promtool(args: readonly string[], input = ""): Promise<Verdict> {
  const child = spawn(path.join(prometheusFolder ?? "", "promtool"), [...args], { timeout: 120_000 });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (chunk: string) => {
      output += chunk;
    });
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, output }));
  });
}
