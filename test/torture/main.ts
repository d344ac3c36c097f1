/**
 * `npm run torture -- --seed N --minutes M [--engine ollama] [--nodes N] [--out FOLDER]` replays a seed; `--judge FOLDER` judges an earlier run again.
 * Ends with 1 where an invariant was broken.
 */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import { whyNoRealNode } from "../bed/node/parts.ts";
import { judge } from "./judge.ts";
import { ENGINES } from "./plan/catalog.ts";
import { planFaults } from "./plan/plan-faults.ts";
import { explain } from "./report/explain.ts";
import { loadRecording } from "./report/load-recording.ts";
import { type Report, renderReport, reportOf } from "./report/report.ts";
import { torture } from "./torture.ts";

const print = (line: string): void => void process.stdout.write(`${line}\n`);

async function main(): Promise<number> {
  const text = { type: "string" } as const;
  const { values } = parseArgs({
    options: { seed: text, minutes: text, engine: text, nodes: text, out: text, judge: text },
  });
  if (values.judge !== undefined) return judgeAgain(path.resolve(values.judge));
  const seed = wholeNumber("seed", values.seed ?? "1");
  const minutes = wholeNumber("minutes", values.minutes ?? "5");
  const engine = ENGINES.find((one) => one === (values.engine ?? "llamacpp"));
  if (engine === undefined) throw new Error(`--engine must be one of ${ENGINES.join(", ")}`);
  const nodes = values.nodes === undefined ? 0 : wholeNumber("nodes", values.nodes);
  if (nodes > 0 && engine === "ollama") throw new Error("--nodes needs --engine llamacpp");
  if (nodes > 0 && whyNoRealNode() !== undefined) throw new Error(whyNoRealNode());
  const outDir = path.resolve(values.out ?? mkdtempSync(path.join(tmpdir(), "metalbridge-torture-")));
  print(`seed ${seed}, ${minutes} minutes, ${engine}, ${nodes} nodes, into ${outDir}`);
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
  const report = await torture({ seed, minutes, engine, nodes, outDir, print, signal: stop.signal });
  writeFileSync(path.join(outDir, "report.json"), `${JSON.stringify(report, undefined, 2)}\n`);
  return tell(report, outDir);
}

/** What the invariants of today say of an earlier run. */
function judgeAgain(outDir: string): number {
  const before = JSON.parse(readFileSync(path.join(outDir, "report.json"), "utf8")) as Report;
  const recording = loadRecording(path.join(outDir, "events.jsonl"));
  const violations = judge(recording, recording.at(-1)?.at ?? 0);
  return tell(
    reportOf(recording, planFaults(before.seed, before.minutes, before.engine, before.nodes), violations),
    outDir,
  );
}

function tell(report: Report, outDir: string): number {
  const recording = loadRecording(path.join(outDir, "events.jsonl"));
  for (const violation of report.violations) print(`\n${explain(violation, recording)}`);
  print(`\n${renderReport(report)}`);
  print(`\nrecording, report and logs: ${outDir}`);
  return report.violations.length === 0 ? 0 : 1;
}

function wholeNumber(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value <= 0)
    throw new Error(`--${name} must be a number above 0, not ${text}`);
  return value;
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    process.exit(2);
  },
);
