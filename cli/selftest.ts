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
import { printJson, printLine } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";
import { PARENT_FLAG, runAsParent } from "./selftest/abandoned.ts";
import { createRecorder, type Recorder, writeRecording } from "./selftest/record.ts";
import { countByStatus, renderResult, renderSummary, selftestExitCode } from "./selftest/render.ts";
import { runSteps, type SelftestResult } from "./selftest/step.ts";
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
