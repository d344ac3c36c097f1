/** `metalbridge agent`: the agent of this machine, in the foreground. launchd, systemd or a terminal keeps it. */

import { type Command, InvalidArgumentError, Option } from "commander";
import { loadAgentConfig } from "../agent/config/load.ts";
import { PORT_RANGE_EXPECTED, type PortRange, parsePortRange } from "../agent/config/port-range.ts";
import type { AgentConfig, AgentSettings } from "../agent/config/schema.ts";
import { runAgent } from "../agent/main.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { defined } from "../src/util/defined.ts";
import { runDoctor } from "./doctor/run-for-agent.ts";
import { llamaServerPaths, ownPrefix } from "./engine/programs.ts";
import { createJsonLog } from "./program/json-log.ts";
import { type LogFile, openLogFile, trimCrashLog } from "./program/log-file.ts";
import { writeOut } from "./program/output.ts";
import { whenStdinEnds } from "./program/stdin-lifetime.ts";
import { listenForStop } from "./program/stop-signals.ts";

/** Many crashes' last words. */
const MAX_CRASH_LOG_BYTES = 1 << 20;

export interface AgentFlags {
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly hostName?: string | undefined;
  readonly address?: readonly string[];
  readonly stateDir?: string;
  readonly platform?: "darwin" | "linux";
  readonly register?: boolean;
  readonly stopEngines?: boolean;
  readonly dryRun?: boolean;
  readonly portRange?: PortRange;
  readonly llamaServer?: readonly string[];
  readonly ollama?: readonly string[];
  readonly modelRoot?: readonly string[];
  readonly hfEndpoint?: string;
  readonly metricsPort?: number;
  readonly logLevel?: AgentSettings["logLevel"];
  readonly logFile?: string;
  readonly exitWithStdin?: boolean;
  readonly remoteAccess?: readonly ("logs" | "doctor")[];
}

/** Options and action of the verb. Every flag is a key of the configuration file too, and wins over it. */
export function configureAgent(command: Command): void {
  addMachineFlags(command)
    .option("--kubeconfig <file>", "how to reach the cluster (default: KUBECONFIG, then ~/.kube/config)")
    .option("--context <name>", "context of the kubeconfig")
    .option("--register", "create the Host object if it does not exist")
    .option("--model-root <folder...>", "folders that file:// sources may be in")
    .option("--ollama <path...>", "ollama programs to try before PATH")
    .option("--hf-endpoint <url>", "Hugging Face endpoint or mirror")
    .option("--port-range <first-last>", "ports for engines", readPortRange)
    .option(
      "--metrics-port <n>",
      "loopback port of /metrics, /healthz and /readyz; 0 takes a free one",
      parsePort,
    )
    .option("--log-level <level>", "debug, info, warn or error")
    .option("--log-file <file>", "log to this file and rotate it (default: standard error)")
    .option("--dry-run", "check host, address, rights and engine, print what the agent would do, and exit")
    .option(
      "--stop-engines",
      "drain and stop the engines when the agent stops (default: they keep running, and the next start adopts them)",
    )
    .addOption(
      new Option(
        "--remote-access <what...>",
        "let users of the cluster whom its RBAC allows read logs, run doctor, or both",
      ).choices(["logs", "doctor"]),
    )
    .addOption(new Option("--exit-with-stdin").hideHelp())
    .action(agent);
}

/** What describes this machine: the same for the agent and for a machine that joins. */
export function addMachineFlags(command: Command): Command {
  return command
    .option("--config <file>", "configuration, YAML or JSON")
    .option("--host-name <name>", "name of the Host object of this machine (default: the machine's name)")
    .option(
      "--address <ip...>",
      "address that engines listen on (default: the one on the route to the API server)",
    )
    .option("--state-dir <folder>", "folder for models, engines and desired state")
    .option(
      "--llama-server <path...>",
      "programs to try before PATH (default: what `metalbridge engine install` installed, PATH, then what npm run setup installed)",
    )
    .addOption(new Option("--platform <name>").hideHelp());
}

async function agent(flags: AgentFlags): Promise<void> {
  const retired: string[] = [];
  const given = loadAgentConfig({
    file: flags.config,
    flags: agentSettingsOf(flags),
    onRetired: (keys) => retired.push(...keys),
  });
  const config: AgentConfig = {
    ...given,
    llamaServer: [...llamaServerPaths(given, { prefix: ownPrefix() })],
  };
  const { catalog } = config.llmfit;
  const stop = listenForStop();
  if (flags.exitWithStdin === true) whenStdinEnds(stop.stop);
  const log = createJsonLog(config.logLevel, { host: config.hostName }, logFileOf(config));
  if (retired.length > 0) log.warn({ keys: retired }, "these keys have no effect any more: remove them");
  await runAgent(config, {
    signal: stop.signal,
    atOnce: stop.again,
    log,
    print: (text) => writeOut(`${text}\n`),
    doctor: (signal) => runDoctor(config, flags, signal),
    records: async () => {
      const { readCatalogFiles } = await import("./catalog/read.ts");
      return (await readCatalogFiles(catalog === undefined ? [] : [catalog])).records;
    },
  });
}

function logFileOf({ logFile, logRotation, dryRun }: AgentConfig): LogFile | undefined {
  if (logFile === undefined || dryRun) return undefined;
  trimCrashLog(MAX_CRASH_LOG_BYTES);
  const { maxSize: maxBytes, keep } = logRotation;
  try {
    return openLogFile(logFile, { maxBytes, keep });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new MetalbridgeError("AgentConfigInvalid", `logFile: ${why}`, undefined, { cause: error });
  }
}

export function agentSettingsOf(flags: AgentFlags): AgentSettings {
  const { kubeconfig, context, hostName, stateDir, platform, register, stopEngines, dryRun, logLevel } =
    flags;
  return defined({
    kubeconfig,
    context,
    hostName,
    stateDir,
    platform,
    register,
    stopEngines,
    dryRun,
    logLevel,
    logFile: flags.logFile,
    addresses: flags.address,
    portRange: flags.portRange,
    llamaServer: flags.llamaServer,
    ollama: flags.ollama === undefined ? undefined : { programs: flags.ollama },
    modelRoots: flags.modelRoot,
    metricsPort: flags.metricsPort,
    remoteAccess: remoteAccessOf(flags),
    huggingFace: flags.hfEndpoint === undefined ? undefined : { endpoint: flags.hfEndpoint },
  }) as AgentSettings;
}

function remoteAccessOf({ remoteAccess: what }: AgentFlags): AgentSettings["remoteAccess"] {
  if (what === undefined) return undefined;
  return { logs: what.includes("logs"), doctor: what.includes("doctor") };
}

function parsePort(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new InvalidArgumentError("a whole number from 0 to 65535 is needed");
  }
  return port;
}

function readPortRange(text: string): PortRange {
  const range = parsePortRange(text);
  if (range === undefined) throw new InvalidArgumentError(`It ${PORT_RANGE_EXPECTED}.`);
  return range;
}
