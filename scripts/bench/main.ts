/** `npm run bench`: every speed and size target, as a table and JSON, held against the last committed result. */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { cpus, totalmem } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openBed } from "./bed.ts";
import type { Measurement } from "./measurement.ts";
import { type Report, renderReport, reportLine } from "./report.ts";
import { measureAdoption } from "./scenarios/adopt.ts";
import { measureDownload } from "./scenarios/download.ts";
import { measureIdle } from "./scenarios/idle.ts";
import { measureStarts } from "./scenarios/start.ts";
import { measureWithdrawals } from "./scenarios/withdraw.ts";

const BASELINE = fileURLToPath(new URL("./baseline.json", import.meta.url));
const HELP = `npm run bench -- [--engines 20] [--idle-minutes 1] [--download-gb 2] [--output json] [--save]
  --save makes this result the committed one to compare with`;

const { values } = parseArgs({
  options: {
    engines: { type: "string", default: "20" },
    "idle-minutes": { type: "string", default: "1" },
    "download-gb": { type: "string", default: "2" },
    output: { type: "string", default: "text" },
    save: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

if (values.help) console.log(HELP);
else await bench();

async function bench(): Promise<void> {
  const measurements = [...(await onBed()), ...(await measureDownload(Number(values["download-gb"]) * 1e9))];
  const report: Report = {
    at: new Date().toISOString(),
    machine: machine(),
    lines: measurements.map(reportLine),
  };
  const baseline = existsSync(BASELINE) ? (JSON.parse(readFileSync(BASELINE, "utf8")) as Report) : undefined;
  console.log(values.output === "json" ? JSON.stringify(report) : renderReport(report, baseline));
  if (values.save) writeFileSync(BASELINE, `${JSON.stringify(report, undefined, 2)}\n`);
}

async function onBed(): Promise<readonly Measurement[]> {
  await using bed = await openBed();
  const starts = await measureStarts(bed, Number(values.engines));
  const own = await measureWithdrawals(bed, "engine killed → slice withdrawn");
  const adoption = await measureAdoption(bed);
  const adopted = await measureWithdrawals(bed, "adopted engine killed → slice withdrawn");
  const idle = await measureIdle(bed, Number(values["idle-minutes"]));
  return [...starts, own, adoption, adopted, ...idle];
}

function machine(): Report["machine"] {
  const [cpu] = cpus();
  return {
    cpu: cpu?.model ?? "unknown",
    cores: cpus().length,
    memoryBytes: totalmem(),
    node: process.version,
  };
}
