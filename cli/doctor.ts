/** `metalbridge doctor`: checks this machine as a host, says what to change, and changes what is safe to change. */

import { tmpdir } from "node:os";
import { text as readText } from "node:stream/consumers";
import { type Command, Option } from "commander";
import { readEnvironment } from "../agent/config/environment.ts";
import { loadAgentConfig, withoutRetired } from "../agent/config/load.ts";
import { type AgentConfig, type AgentSettings, agentConfigSchema } from "../agent/config/schema.ts";
import { type CheckResult, runChecks } from "../src/doctor/checks/check.ts";
import { valueOfReading } from "../src/doctor/readings.ts";
import { allChecks } from "../src/doctor/table.ts";
import { createRunTool } from "../src/util/command.ts";
import { outputFlag, parseDuration, parseHostName, parseName } from "./cluster/flags.ts";
import { type Fixed, fixAll } from "./doctor/fix.ts";
import { probeFromCluster } from "./doctor/from-cluster.ts";
import { type Gathered, type GatherOptions, gather } from "./doctor/gather.ts";
import { doctorOnHosts } from "./doctor/on-hosts.ts";
import { type DoctorReport, doctorExitCode, renderDoctorReport, reportFields } from "./doctor/render.ts";
import { exitCodeOfHosts, hostFields, renderHostReports } from "./doctor/render-hosts.ts";
import { ownPrefix } from "./engine/programs.ts";
import { currentPlatform } from "./install/context.ts";
import { becomeAgentUser } from "./install/installed-agent.ts";
import { writeOut } from "./program/output.ts";

/** A second is then left, of five, to judge and to print. */
const LIMIT_MS = 4_000;

interface Flags {
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
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
  readonly namespace?: string;
}

/** Options and action of the verb. Those of the agent mean the same here; without --config and --state-dir it checks the installed agent. */
export function configureDoctor(command: Command): void {
  command
    .option("--config <file>", "the agent's configuration, YAML or JSON (default: the installed agent's)")
    .option("--kubeconfig <file>", "how to reach the cluster (default: KUBECONFIG, then ~/.kube/config)")
    .option("--context <name>", "context of the kubeconfig")
    .option("--host-name <name>", "name of the Host object of this machine (default: the machine's name)")
    .option("--address <ip...>", "address that engines listen on (default: as the agent)")
    .option("--state-dir <folder>", "the agent's state folder (default: the installed agent's)")
    .addOption(new Option("--platform <name>").hideHelp())
    .option("--fix", "fix what is safe: needs no root, loses nothing; prints what it does")
    .option("--all", "list passed checks too")
    .option(
      "--timeout <time>",
      "limit for each reading, such as 30s on a machine that is busy (default: 4s); for the probe pod: 60s",
      parseDuration,
    )
    .option(
      "--from-cluster <host>",
      "instead of this machine: whether a pod reaches the ports of this Host; creates a pod and deletes it",
      parseHostName,
    )
    .option("--image <image>", "of that pod: one that has Node (default: the controller's)")
    .option("-n, --namespace <name>", "of that pod (default: the controller's)", parseName)
    .addOption(
      new Option(
        "--host <names>",
        "instead of this machine: these hosts, separated by commas; their agents run it (docs/doctor.md)",
      )
        .argParser((text: string) => text.split(",").map(parseHostName))
        .conflicts(["fromCluster", "fix"]),
    )
    .addOption(new Option("--all-hosts", "the same of all hosts").conflicts(["fromCluster", "fix", "host"]))
    .option("--direct", "with --host: connect to the hosts themselves, not through the cluster")
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
  const text =
    flags.output === "json"
      ? JSON.stringify(reportFields(report), undefined, 2)
      : renderDoctorReport(report, { isAll: flags.all === true });
  writeOut(`${text}\n`);
  process.exitCode = doctorExitCode(report.results);
}

async function checkHosts({ host: hosts, direct = false, ...flags }: Flags): Promise<void> {
  const reports = await doctorOnHosts(flags, { hosts, direct });
  const text =
    flags.output === "json"
      ? JSON.stringify(hostFields(reports), undefined, 2)
      : renderHostReports(reports, flags.all === true);
  writeOut(`${text}\n`);
  process.exitCode = exitCodeOfHosts(reports);
}

async function checkMachine(flags: Flags): Promise<DoctorReport> {
  const { all, toolPath } = readEnvironment();
  const isAgents = flags.configOnStdin === true;
  const isOther = isAgents || flags.config !== undefined || flags.stateDir !== undefined;
  const place = { platform: flags.platform ?? currentPlatform(), root: flags.root };
  const installed = isOther ? undefined : await becomeAgentUser(place);
  const configFile = flags.config ?? installed?.configFile;
  const env = installed?.env ?? all;
  const settings = { ...settingsOf(flags), stateDir: flags.stateDir ?? installed?.stateDir };
  const config = isAgents
    ? await readAgentsConfig()
    : loadAgentConfig({ file: configFile, flags: settings, env });
  const limitMs = flags.timeout ?? LIMIT_MS;
  const prefix = installed?.prefix ?? ownPrefix();
  const asked: GatherOptions = { config, limitMs, configFile, env, toolPath, tempDir: tmpdir(), prefix };
  const startMs = performance.now();
  let found = await look(asked);
  const fixed: Fixed[] = [];
  if (flags.fix === true) {
    const run = createRunTool(toolPath);
    fixed.push(...(await fixAll(found.results, { run, stateDir: config.stateDir, tempDir: asked.tempDir })));
    if (fixed.length > 0) found = await look(asked);
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

/** The whole configuration of a running agent, as it loaded it: doctor/run-for-agent.ts. */
async function readAgentsConfig(): Promise<AgentConfig> {
  const given = JSON.parse(await readText(process.stdin)) as AgentSettings;
  // During an upgrade the agent may still be of the version before.
  return agentConfigSchema.parse(withoutRetired(given).settings);
}

async function look(asked: GatherOptions): Promise<Gathered & { readonly results: readonly CheckResult[] }> {
  const gathered = await gather(asked);
  return { ...gathered, results: runChecks(allChecks, asked.config.platform, gathered.taken) };
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
