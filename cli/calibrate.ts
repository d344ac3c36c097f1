/** `metalbridge calibrate`: measures the compute buffers of llama-server on this machine. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { readPartsConfig } from "../local/control-plane/config.ts";
import { findLlamaServer } from "../local/control-plane/engine-programs.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { estimateClaim } from "../src/engines/llamacpp/claim/claim.ts";
import type { ComputeTable } from "../src/engines/llamacpp/claim/compute/table.ts";
import { formatBytes } from "../src/util/bytes.ts";
import { fitComputeTable } from "./calibrate/compute-table.ts";
import { measureBuffers } from "./calibrate/measure.ts";
import type { PrintedBuffers } from "./calibrate/printed.ts";
import { type CalibrationCase, calibrationCases } from "./calibrate/sizes.ts";
import { writeSparseModel } from "./calibrate/sparse-model.ts";
import { outputFlag } from "./cluster/flags.ts";
import { readGguf } from "./gguf/read.ts";
import { printJson, printLine } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface CalibrateOptions {
  readonly llamaServer?: string;
  readonly quick?: boolean;
  readonly write?: string;
  readonly output: "text" | "json";
}

/** Options and action of the verb. */
export function configureCalibrate(command: Command): void {
  command
    .option("--llama-server <program>", "llama-server to measure (default: the one that the demo would use)")
    .option("--quick", "measure three sizes instead of all")
    .option("--write <file>", "write the coefficients to a file, as part of the agent's configuration")
    .addOption(outputFlag())
    .action(calibrate);
}

async function calibrate({ llamaServer, quick = false, write, output }: CalibrateOptions): Promise<void> {
  const parts = readPartsConfig();
  const program = findLlamaServer(llamaServer === undefined ? parts : { ...parts, llamaServer });
  if (program === undefined)
    throw new MetalbridgeError("RuntimeNotInstalled", "there is no llama-server on this machine");
  const say = (text: string) => (output === "text" ? printLine(text) : undefined);
  say(`${"".padEnd(NAME)}${"estimated".padStart(SIZE)}${"measured".padStart(SIZE)}`);
  const calibration = await runCalibration({
    program,
    cases: calibrationCases(quick),
    signal: listenForStop().signal,
    onSample: (sample) => say(rowOf(sample)),
  });
  if (output === "json") printJson(calibration);
  else for (const line of conclusion(calibration)) say(line);
  if (write !== undefined) await writeConfiguration(write, calibration);
}

const NAME = 28;
const SIZE = 12;

function rowOf({ name, laidOutBytes, printed }: CalibrationSample): string {
  const sizes = [laidOutBytes, printed.computeBytes].map((bytes) => formatBytes(bytes).padStart(SIZE));
  return `${name.padEnd(NAME)}${sizes.join("")}`;
}

function conclusion({ backends, table }: Calibration): string[] {
  if (table === undefined) return ["", "the measured sizes do not show how the buffers grow"];
  const extra = formatBytes(table.extraBytes);
  return [
    "",
    `compute buffers on ${backends.join(" and ")}: ${table.factor} × the estimate + ${extra}`,
    "configuration for agents on machines like this one:",
    "",
    "memory:",
    "  compute:",
    `    factor: ${table.factor}`,
    `    extraBytes: ${table.extraBytes}`,
  ];
}

/** Written as JSON, which is also YAML. */
async function writeConfiguration(path: string, { table }: Calibration): Promise<void> {
  if (table === undefined) return;
  const { factor, extraBytes } = table;
  await writeFile(path, `${JSON.stringify({ memory: { compute: { factor, extraBytes } } }, undefined, 2)}\n`);
}

interface CalibrationSample {
  readonly name: string;
  readonly laidOutBytes: number;
  readonly printed: PrintedBuffers;
}

interface Calibration {
  /** Backends of the engine, for example CPU or MTL0. */
  readonly backends: readonly string[];
  readonly samples: readonly CalibrationSample[];
  /** Undefined if the sizes allow no fit. */
  readonly table: ComputeTable | undefined;
}

interface CalibrationOptions {
  readonly program: string;
  readonly cases: readonly CalibrationCase[];
  readonly signal: AbortSignal;
  readonly onSample: (sample: CalibrationSample) => void;
}

/** Runs a calibration: measures every case on the engine, and fits the coefficients. */
async function runCalibration({
  program,
  cases,
  signal,
  onSample,
}: CalibrationOptions): Promise<Calibration> {
  const folder = await mkdtemp(join(tmpdir(), "metalbridge-calibrate-"));
  const samples: CalibrationSample[] = [];
  try {
    for (const { name, model, settings } of cases) {
      const path = join(folder, "model.gguf");
      await writeSparseModel(path, model);
      const { summary } = await readGguf(path);
      const laidOutBytes = estimateClaim(summary, settings).computeBytes;
      const sample = {
        name,
        laidOutBytes,
        printed: await measureBuffers(program, path, settings, { signal }),
      };
      samples.push(sample);
      onSample(sample);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
  const backends = [...new Set(samples.flatMap(({ printed }) => printed.backends))].sort();
  const measured = samples.map(({ laidOutBytes, printed }) => ({
    laidOutBytes,
    printedBytes: printed.computeBytes,
  }));
  return { backends, samples, table: fitComputeTable(measured, `measured on ${backends.join(" and ")}`) };
}
