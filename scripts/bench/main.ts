/** `npm run bench`: every speed and size target, as a table and JSON, held against the last committed result. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { ScenarioResult } from "./beds/measurement.ts";
import { type BenchReport, mergeReports, renderBenchReport, reportLine } from "./report.ts";
import { scenarios } from "./scenarios.ts";

const BASELINE = fileURLToPath(new URL("./baseline.json", import.meta.url));
const HELP = `npm run bench -- [--only NAME]... [--engines 20] [--idle-minutes 1] [--download-gb 2] [--hosts 1000] [--services 2000] [--output json] [--save]
  --only   one of ${Object.keys(scenarios).join(", ")}; may be repeated
  --save   makes this result the committed one to compare with; with --only the others stay as they are`;

const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true, default: [] },
    engines: { type: "string", default: "20" },
    "idle-minutes": { type: "string", default: "1" },
    "download-gb": { type: "string", default: "2" },
    hosts: { type: "string", default: "1000" },
    services: { type: "string", default: "2000" },
    output: { type: "string", default: "text" },
    save: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

const unknown = values.only.filter((name) => !Object.hasOwn(scenarios, name));
if (values.help) console.log(HELP);
else if (unknown.length === 0) await bench(values.only);
else {
  console.error(`there is no scenario ${unknown.join(", ")}\n${HELP}`);
  process.exitCode = 2;
}

async function bench(only: readonly string[]): Promise<void> {
  const report: BenchReport = {
    at: new Date().toISOString(),
    machine: machine(),
    lines: (await measure(only)).map(reportLine),
  };
  const baseline = existsSync(BASELINE)
    ? (JSON.parse(readFileSync(BASELINE, "utf8")) as BenchReport)
    : undefined;
  console.log(values.output === "json" ? JSON.stringify(report) : renderBenchReport(report, baseline));
  if (!values.save) return;
  const had = { ...report, lines: report.lines.filter(({ summary }) => summary.n > 0) };
  const kept = only.length > 0 && baseline !== undefined ? mergeReports(baseline, had) : had;
  writeFileSync(BASELINE, `${JSON.stringify(kept, undefined, 2)}\n`);
}

async function measure(only: readonly string[]): Promise<readonly ScenarioResult[]> {
  const options = {
    engines: Number(values.engines),
    idleMinutes: Number(values["idle-minutes"]),
    downloadGb: Number(values["download-gb"]),
    hosts: Number(values.hosts),
    services: Number(values.services),
  };
  const measurements: ScenarioResult[] = [];
  for (const [name, scenario] of Object.entries(scenarios))
    if (only.length === 0 || only.includes(name)) measurements.push(...(await scenario(options)));
  return measurements;
}

function machine(): BenchReport["machine"] {
  const [cpu] = cpus();
  return {
    cpu: cpu?.model ?? "unknown",
    cores: cpus().length,
    memoryBytes: totalmem(),
    node: process.version,
  };
}
