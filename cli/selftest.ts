/** `metalbridge selftest`: tests on this machine what the agent relies on, and records the output of system tools. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Command, Option } from "commander";
import { readEnvironment } from "../agent/config/environment.ts";
import { loadAgentConfig } from "../agent/config/load.ts";
import type { AgentConfig } from "../agent/config/schema.ts";
import { MetalbridgeError, remedyOf } from "../src/api/errors.ts";
import { FIREWALL_FOLDER } from "../src/macos/doctor/firewall.ts";
import { createRunTool } from "../src/util/command.ts";
import { outputFlag } from "./cluster/flags.ts";
import { exitCodes } from "./program/exit-codes.ts";
import { printJson, printLine } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";
import { PARENT_FLAG, runAsParent } from "./selftest/abandoned.ts";
import { createRecorder, type Recorder, writeRecording } from "./selftest/record.ts";
import { runSteps, type SelftestOutcome, type SelftestResult } from "./selftest/step.ts";
import { allSteps } from "./selftest/table.ts";

interface Flags {
  readonly config?: string;
  readonly llamaServer?: string[];
  readonly address?: string[];
  readonly platform?: AgentConfig["platform"];
  readonly record?: string;
  readonly output: "text" | "json";
  readonly asParent?: boolean;
}

/** Options and action of the verb. */
export function configureSelftest(command: Command): void {
  command
    .option(
      "--record <folder>",
      "record the output of the tools of this Mac, without names, serial numbers and addresses",
    )
    .option("--config <file>", "configuration file of the agent, YAML or JSON")
    .option("--llama-server <program...>", "llama-server programs to test (default: the same as the agent)")
    .option("--address <ip...>", "address that engines listen on (default: the address of the default route)")
    .addOption(new Option("--platform <name>").hideHelp())
    .addOption(outputFlag())
    .addOption(new Option(PARENT_FLAG).hideHelp())
    .action(selftest);
}

async function selftest(flags: Flags): Promise<void> {
  if (flags.asParent === true) return runAsParent();
  const { platform, llamaServer, address, record, output } = flags;
  const config = loadAgentConfig({
    file: flags.config,
    flags: { platform, llamaServer, addresses: address },
  });
  if (record !== undefined && config.platform !== "darwin")
    throw new MetalbridgeError(
      "RecordingFailed",
      "only the tools of a Mac can be recorded",
      remedyOf("RecordingFailed", { folder: record }),
    );
  const { all, toolPath } = readEnvironment();
  const path = `${toolPath}:/usr/sbin:/sbin:${FIREWALL_FOLDER}`;
  const runPrivately = createRunTool(path);
  const recorder = createRecorder(runPrivately);
  const { signal: stop, exitCode } = listenForStop();
  const folder = await mkdtemp(join(tmpdir(), "metalbridge-selftest-"));
  try {
    const bench = {
      config,
      path,
      folder,
      runPrivately,
      run: recorder.run,
      env: { PATH: toolPath, HOME: all.HOME ?? "/" },
      isReplayed: config.platform !== process.platform,
    };
    const onResult = (result: SelftestResult): void => {
      if (output === "text") printLine(renderResult(result));
    };
    const results = await runSteps(allSteps(), bench, { stop, onResult });
    process.exitCode = stop.aborted ? exitCode() : selftestExitCode(results);
    const recorded = record === undefined || stop.aborted ? undefined : await write(record, recorder);
    if (output === "json") {
      const fields = { platform: config.platform, summary: countByStatus(results), results, recorded };
      printJson(fields);
    } else {
      printLine(`\n${renderSummary(results)}`);
      if (recorded !== undefined) printLine(`recorded in ${recorded}`);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function write(folder: string, recorder: Recorder): Promise<string> {
  return writeRecording(folder, await recorder.files());
}

const STATUSES = [
  "failed",
  "unknown",
  "ok",
  "notApplicable",
] as const satisfies readonly SelftestOutcome["status"][];
const NAME = 16;
const LABELS = { failed: "failed", unknown: "unknown", ok: "ok", notApplicable: "-" } as const;

/** One line, printed after each step. The expected fact follows if it was not confirmed. */
function renderResult({ name, proves, status, found }: SelftestResult): string {
  const head = `${LABELS[status].padEnd(7)}  ${name.padEnd(NAME)}  ${found}`;
  return status === "failed" || status === "unknown" ? `${head}\n         expected: ${proves}` : head;
}

function renderSummary(results: readonly SelftestResult[]): string {
  const counts = countByStatus(results);
  return `${counts.failed} failed, ${counts.unknown} unknown, ${counts.ok} passed, ${counts.notApplicable} not applicable`;
}

/** As in doctor: 1 if a step failed, 3 if a fact could not be checked, else 0. */
function selftestExitCode(results: readonly SelftestResult[]): number {
  const { failed, unknown } = countByStatus(results);
  if (failed > 0) return exitCodes.failed;
  return unknown > 0 ? exitCodes.warnings : exitCodes.ok;
}

function countByStatus(
  results: readonly SelftestResult[],
): Readonly<Record<SelftestOutcome["status"], number>> {
  const of = (status: SelftestOutcome["status"]) =>
    results.filter((result) => result.status === status).length;
  return Object.fromEntries(STATUSES.map((status) => [status, of(status)])) as Record<
    SelftestOutcome["status"],
    number
  >;
}
