/** `metalbridge doctor`: checks this machine as a host, shows how to fix problems, and applies safe fixes. */

import { tmpdir } from "node:os";
import { text as readText } from "node:stream/consumers";
import { type Command, Option } from "commander";
import { readEnvironment } from "../agent/config/environment.ts";
import { loadAgentConfig } from "../agent/config/load.ts";
import { type AgentConfig, type AgentSettings, agentConfigSchema } from "../agent/config/schema.ts";
import { type CheckResult, runChecks } from "../src/doctor/checks/check.ts";
import { valueOfReading } from "../src/doctor/readings.ts";
import { allChecks } from "../src/doctor/table.ts";
import { createRunTool } from "../src/util/command.ts";
import {
  addClusterFlags,
  type ClusterFlags,
  outputFlag,
  parseDuration,
  parseHostName,
  parseHostNames,
  parseName,
} from "./cluster/flags.ts";
import { type Fixed, fixAll } from "./doctor/fix.ts";
import { probeFromCluster } from "./doctor/from-cluster.ts";
import { type Gathered, type GatherOptions, gather } from "./doctor/gather.ts";
import { doctorOnHosts } from "./doctor/on-hosts.ts";
import {
  type DoctorReport,
  doctorExitCode,
  exitCodeOfHosts,
  hostFields,
  renderDoctorReport,
  renderHostReports,
  reportFields,
} from "./doctor/render.ts";
import { ownPrefix } from "./engine/programs.ts";
import { currentPlatform } from "./install/context.ts";
import { becomeAgentUser } from "./install/installed-agent.ts";
import { printResult } from "./program/output.ts";

/** Time limit for each reading. Doctor promises a result within 5 s. */
const LIMIT_MS = 4_000;

interface Flags extends ClusterFlags {
  readonly config?: string;
  readonly hostName?: string;
  readonly address?: string[];
  readonly stateDir?: string;
  readonly platform?: "darwin" | "linux";
  readonly output: "text" | "json";
  readonly fix?: boolean;
  readonly all?: boolean;
  readonly timeout?: number;
  readonly root: string;
  readonly configOnStdin?: boolean;
  readonly fromCluster?: string;
  readonly host?: readonly string[];
  readonly allHosts?: boolean;
  readonly direct?: boolean;
  readonly image?: string;
}

/** Options and action of the verb. Options of the agent have the same meaning. Without --config and --state-dir it checks the installed agent. */
export function configureDoctor(command: Command): void {
  addClusterFlags(command)
    .option("--config <file>", "configuration file of the agent (default: the one of the installed agent)")
    .option("--host-name <name>", "name of the Host of this machine (default: the machine's name)")
    .option("--address <ip...>", "address that engines listen on (default: the same as the agent)")
    .option("--state-dir <folder>", "state folder of the agent (default: the one of the installed agent)")
    .addOption(new Option("--platform <name>").hideHelp())
    .option("--fix", "apply the fixes that need no root and lose no data, and print them")
    .option("--all", "also list checks that passed")
    .option(
      "--timeout <time>",
      "time limit for each reading, such as 30s on a busy machine (default: 4s; with --from-cluster 60s)",
      parseDuration,
    )
    .option(
      "--from-cluster <host>",
      "check from a temporary pod whether the cluster reaches the ports of this Host, instead of this machine",
      parseHostName,
    )
    .option(
      "--image <image>",
      "with --from-cluster: image of the pod, which must contain Node (default: the image of the controller)",
    )
    .option(
      "-n, --namespace <name>",
      "with --from-cluster: namespace of the pod (default: the namespace of the controller)",
      parseName,
    )
    .addOption(
      new Option(
        "--host <names>",
        "check these hosts, separated by commas, instead of this machine; their agents run doctor (docs/doctor.md)",
      )
        .argParser(parseHostNames)
        .conflicts(["fromCluster", "fix"]),
    )
    .addOption(new Option("--all-hosts", "check all hosts").conflicts(["fromCluster", "fix", "host"]))
    .option("--direct", "with --host: connect to the hosts directly, not through the cluster")
    .addOption(outputFlag())
    .addOption(new Option("--root <folder>").default("").hideHelp())
    .addOption(new Option("--config-on-stdin").hideHelp())
    .action(doctor);
}

async function doctor(flags: Flags): Promise<void> {
  if (flags.host !== undefined || flags.allHosts === true) return checkHosts(flags);
  const { fromCluster } = flags;
  const report =
    fromCluster === undefined ? await checkMachine(flags) : await probeFromCluster(fromCluster, flags);
  printResult(flags.output, reportFields(report), () =>
    renderDoctorReport(report, { isAll: flags.all === true }),
  );
  process.exitCode = doctorExitCode(report.results);
}

async function checkHosts({ host: hosts, direct = false, ...flags }: Flags): Promise<void> {
  const reports = await doctorOnHosts(flags, { hosts, direct });
  printResult(flags.output, hostFields(reports), () => renderHostReports(reports, flags.all === true));
  process.exitCode = exitCodeOfHosts(reports);
}

async function checkMachine(flags: Flags): Promise<DoctorReport> {
  const { all, toolPath } = readEnvironment();
  const isForAgent = flags.configOnStdin === true;
  const isExplicit = isForAgent || flags.config !== undefined || flags.stateDir !== undefined;
  const place = { platform: flags.platform ?? currentPlatform(), root: flags.root };
  const installed = isExplicit ? undefined : await becomeAgentUser(place);
  const configFile = flags.config ?? installed?.configFile;
  const env = installed?.env ?? all;
  const settings = { ...settingsOf(flags), stateDir: flags.stateDir ?? installed?.stateDir };
  const config = isForAgent
    ? await readAgentConfig()
    : loadAgentConfig({ file: configFile, flags: settings, env });
  const limitMs = flags.timeout ?? LIMIT_MS;
  const prefix = installed?.prefix ?? ownPrefix();
  const options: GatherOptions = { config, limitMs, configFile, env, toolPath, tempDir: tmpdir(), prefix };
  const startMs = performance.now();
  let found = await readAndCheck(options);
  const fixed: Fixed[] = [];
  if (flags.fix === true) {
    const run = createRunTool(toolPath);
    fixed.push(
      ...(await fixAll(found.results, { run, stateDir: config.stateDir, tempDir: options.tempDir })),
    );
    if (fixed.length > 0) found = await readAndCheck(options);
  }
  return {
    host: config.hostName,
    platform: config.platform,
    machine: machineLine(config, found),
    tookMs: Math.round(performance.now() - startMs),
    results: found.results,
    fixed,
    inventory: found.inventory,
  };
}

/** The configuration that a running agent has loaded. See doctor/run-for-agent.ts. */
async function readAgentConfig(): Promise<AgentConfig> {
  return agentConfigSchema.parse(JSON.parse(await readText(process.stdin)));
}

async function readAndCheck(
  options: GatherOptions,
): Promise<Gathered & { readonly results: readonly CheckResult[] }> {
  const gathered = await gather(options);
  return {
    ...gathered,
    results: runChecks(allChecks, options.config.platform, gathered.taken, {
      host: options.config.hostName,
      file: options.configFile,
    }),
  };
}

function machineLine({ platform }: AgentConfig, { taken, inventory }: Gathered): string {
  const machine = valueOfReading(taken.machine);
  const { system } = valueOfReading(inventory) ?? {};
  const model = machine?.hardwareModel ?? system?.model;
  const version =
    machine === undefined ? platform : `${platform === "darwin" ? "macOS " : ""}${machine.osVersion}`;
  return [machine?.chip, model, version].filter((part) => part !== undefined && part !== "").join(", ");
}

function settingsOf({ kubeconfig, context, hostName, stateDir, platform, address }: Flags): AgentSettings {
  return { kubeconfig, context, hostName, stateDir, platform, addresses: address };
}
