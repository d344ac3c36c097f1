/** Prometheus' own checker, as setup or this machine provides it. */
import path from "node:path";
import { findPrometheus } from "../../../scripts/setup/prometheus/find.mjs";
import { execute } from "../../bed/run.ts";

/** The folder with prometheus and promtool; undefined where there is none, and the tests that need it are skipped. */
export const prometheusFolder: string | undefined = findPrometheus();

/** What its absence is called in the name of a test. */
export const needsPrometheus =
  prometheusFolder === undefined ? " (needs prometheus: npm run setup -- --for system)" : "";

export interface Verdict {
  readonly code: number | string;
  /** Both streams. */
  readonly output: string;
}

export async function promtool(args: readonly string[], input = ""): Promise<Verdict> {
  const program = path.join(prometheusFolder ?? "", "promtool");
  const { code, stdout, stderr } = await execute(program, args, { input, timeoutMs: 120_000 });
  return { code, output: `${stdout}${stderr}` };
}
