/** `metalbridge agent`: the agent of this machine, in the foreground. launchd, systemd or a terminal keeps it. */
import { type Command, InvalidArgumentError } from "commander";
import { loadAgentConfig } from "../agent/config/load.ts";
import type { AgentSettings } from "../agent/config/schema.ts";
import { runAgent } from "../agent/main.ts";
import { createJsonLog } from "./program/json-log.ts";
import { whenStdinEnds } from "./program/stdin-lifetime.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface AgentFlags {
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly hostName?: string;
  readonly address?: readonly string[];
  readonly stateDir?: string;
  readonly platform?: "darwin" | "linux";
  readonly register?: boolean;
  readonly stopEngines?: boolean;
  readonly dryRun?: boolean;
  readonly portRange?: readonly [number, number];
  readonly llamaServer?: readonly string[];
  readonly modelRoot?: readonly string[];
  readonly hfEndpoint?: string;
  readonly metricsPort?: number;
  readonly logLevel?: AgentSettings["logLevel"];
  readonly exitWithStdin?: boolean;
}

/** Options and action of the verb. Every flag is a key of the configuration file too, and wins over it. */
export function configureAgent(command: Command): void {
  command
    .option("--config <file>", "configuration, YAML or JSON")
    .option("--kubeconfig <file>", "how to reach the cluster (default: KUBECONFIG, then ~/.kube/config)")
    .option("--context <name>", "context of the kubeconfig")
    .option("--host-name <name>", "name of this machine's Host object (default: the machine's name)")
    .option(
      "--address <ip...>",
      "address that engines serve on (default: that of the route to the API server)",
    )
    .option("--state-dir <folder>", "where models, engines and desired state live")
    .option("--register", "create the Host object if it is not there")
    .option("--model-root <folder...>", "where file:// sources may lie")
    .option("--llama-server <path...>", "programs to try before PATH")
    .option("--hf-endpoint <url>", "the Hugging Face hub or a mirror of it")
    .option("--port-range <first-last>", "ports for engines", parsePortRange)
    .option(
      "--metrics-port <n>",
      "loopback port of /metrics, /healthz and /readyz; 0 takes a free one",
      parsePort,
    )
    .option("--log-level <level>", "debug, info, warn or error")
    .option("--platform <name>", "darwin or linux: how this machine is read (default: what it is)")
    .option("--dry-run", "print what would be done, and stop")
    .option(
      "--stop-engines",
      "drain and end the engines when told to end; without it they run on for the next start",
    )
    .option("--exit-with-stdin", "end when standard input ends")
    .action(agent);
}

async function agent(flags: AgentFlags): Promise<void> {
  const config = loadAgentConfig({ file: flags.config, flags: settingsOf(flags) });
  const stop = listenForStop();
  if (flags.exitWithStdin === true) whenStdinEnds(stop.stop);
  await runAgent(config, {
    signal: stop.signal,
    atOnce: stop.again,
    log: createJsonLog(config.logLevel, { host: config.hostName }),
    print: (text) => process.stdout.write(`${text}\n`),
  });
}

function settingsOf(flags: AgentFlags): AgentSettings {
  const { kubeconfig, context, hostName, stateDir, platform, register, stopEngines, dryRun, logLevel } =
    flags;
  return defined({
    ...{ kubeconfig, context, hostName, stateDir, platform, register, stopEngines, dryRun, logLevel },
    addresses: flags.address,
    portRange: flags.portRange,
    llamaServer: flags.llamaServer,
    modelRoots: flags.modelRoot,
    metricsPort: flags.metricsPort,
    huggingFace: flags.hfEndpoint === undefined ? undefined : { endpoint: flags.hfEndpoint },
  }) as AgentSettings;
}

function defined(settings: Readonly<Record<string, unknown>>): object {
  return Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined));
}

function parsePort(text: string): number {
  const port = Number(text);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new InvalidArgumentError("a whole number from 0 to 65535 is needed");
  }
  return port;
}

function parsePortRange(text: string): readonly [number, number] {
  const [first, last, rest] = text.split("-");
  if (first === undefined || last === undefined || rest !== undefined) {
    throw new InvalidArgumentError("two ports with a dash between them are needed, such as 21000-21999");
  }
  return [parsePort(first), parsePort(last)];
}
