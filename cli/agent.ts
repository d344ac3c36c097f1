/** `metalbridge agent`: runs the agent in the foreground, under launchd, systemd or a terminal. */

import { type Command, InvalidArgumentError, Option } from "commander";
import { loadAgentConfig } from "../agent/config/load.ts";
import {
  type AgentConfig,
  type AgentSettings,
  PORT_RANGE_EXPECTED,
  type PortRange,
  parsePortRange,
} from "../agent/config/schema.ts";
import { runAgent } from "../agent/main.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { reportProxies, useProxies } from "../src/hub/proxy.ts";
import { defined } from "../src/util/defined.ts";
import { errorMessage } from "../src/util/error-message.ts";
import { addClusterFlags, logLevelOption, parsePort } from "./cluster/flags.ts";
import { runDoctor } from "./doctor/run-for-agent.ts";
import { llamaServerPaths, ownPrefix } from "./engine/programs.ts";
import { createJsonLog } from "./program/json-log.ts";
import { type LogFile, openLogFile, trimCrashLog } from "./program/log-file.ts";
import { printLine } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

/** Maximum size of the crash log, which holds the last output of many crashes. */
const MAX_CRASH_LOG_BYTES = 1 << 20;

/** Flags that have the name of their key in the configuration file. */
const SAME_NAME = [
  ...["kubeconfig", "context", "hostName", "stateDir", "platform", "register", "stopEngines"],
  ...["dryRun", "logLevel", "logFile", "portRange", "llamaServer", "metricsPort", "flexinferMetricNames"],
] as const satisfies readonly (keyof AgentSettings)[];

export interface AgentFlags extends Pick<AgentSettings, (typeof SAME_NAME)[number]> {
  readonly config?: string;
  readonly address?: readonly string[];
  readonly ollama?: readonly string[];
  readonly modelRoot?: readonly string[];
  readonly hfEndpoint?: string;
  readonly exitWithStdin?: boolean;
  readonly remoteAccess?: readonly ("logs" | "doctor")[];
}

/** Options and action of the verb. Every flag is also a key of the configuration file, and overrides the file. */
export function configureAgent(command: Command): void {
  addClusterFlags(addMachineFlags(command))
    .option("--register", "create the Host object if it does not exist")
    .option("--model-root <folder...>", "folders that file:// sources may read")
    .option("--ollama <path...>", "ollama programs to try before those on PATH")
    .option("--hf-endpoint <url>", "Hugging Face endpoint or mirror")
    .option("--port-range <first-last>", "range of ports for engines", readPortRange)
    .option(
      "--metrics-port <n>",
      "loopback port of /metrics, /healthz and /readyz; 0 chooses a free port",
      parsePort,
    )
    .option("--flexinfer-metric-names", "also export metrics under their names in FlexInfer")
    .addOption(logLevelOption("trace"))
    .option("--log-file <file>", "write the log to this file and rotate it (default: standard error)")
    .option("--dry-run", "check the host, its address, permissions and engines, print the plan, and exit")
    .option(
      "--stop-engines",
      "drain and stop the engines when the agent stops (default: the engines keep running, and the next agent adopts them)",
    )
    .addOption(
      new Option(
        "--remote-access <what...>",
        "allow cluster users to read logs or run doctor on this host, subject to RBAC",
      ).choices(["logs", "doctor"]),
    )
    .addOption(new Option("--exit-with-stdin").hideHelp())
    .action(agent);
}

/** Options that describe this machine, for `agent` and `join`. */
export function addMachineFlags(command: Command): Command {
  return command
    .option("--config <file>", "configuration file, YAML or JSON")
    .option("--host-name <name>", "name of the Host of this machine (default: the machine's name)")
    .option(
      "--address <ip...>",
      "address that engines listen on (default: the address on the route to the API server)",
    )
    .option("--state-dir <folder>", "folder for models, engines and desired state")
    .option(
      "--llama-server <path...>",
      "llama-server programs to try (default: the one from `metalbridge engine install`, from PATH, then from npm run setup)",
    )
    .addOption(new Option("--platform <name>").hideHelp());
}

async function agent(flags: AgentFlags): Promise<void> {
  const given = loadAgentConfig({ file: flags.config, flags: agentSettingsOf(flags) });
  const config: AgentConfig = {
    ...given,
    llamaServer: [...llamaServerPaths(given, { prefix: ownPrefix() })],
  };
  const { catalog } = config.llmfit;
  const stop = listenForStop(flags);
  const log = createJsonLog(config.logLevel, { host: config.hostName }, logFileOf(config));
  useProxies(config.proxy);
  reportProxies(log);
  await runAgent(config, {
    signal: stop.signal,
    atOnce: stop.again,
    log,
    print: printLine,
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
    throw new MetalbridgeError("AgentConfigInvalid", `logFile: ${errorMessage(error)}`, undefined, {
      cause: error,
    });
  }
}

export function agentSettingsOf(flags: AgentFlags): AgentSettings {
  const { address, ollama, modelRoot, hfEndpoint, remoteAccess } = flags;
  return defined({
    ...Object.fromEntries(SAME_NAME.map((name) => [name, flags[name]])),
    addresses: address,
    ollama: ollama && { programs: ollama },
    modelRoots: modelRoot,
    remoteAccess: remoteAccess && {
      logs: remoteAccess.includes("logs"),
      doctor: remoteAccess.includes("doctor"),
    },
    huggingFace: hfEndpoint === undefined ? undefined : { endpoint: hfEndpoint },
  }) as AgentSettings;
}

function readPortRange(text: string): PortRange {
  const range = parsePortRange(text);
  if (range === undefined) throw new InvalidArgumentError(`It ${PORT_RANGE_EXPECTED}.`);
  return range;
}
