/** `metalbridge service`, `start`, `stop` and `restart`: manages the installed agent. */

import type { Command } from "commander";
import type { Choices } from "../launchd/plan/entries.ts";
import type { ManagedJob, ObservedAgent } from "../launchd/plan/observed.ts";
import type { InstallPorts } from "../launchd/ports.ts";
import { type InstalledServiceState, serviceState, start, stop } from "../launchd/service.ts";
import { type OutputFormat, outputFlag, parseSeconds } from "./cluster/flags.ts";
import {
  addInstallScopeFlags,
  existingChoices,
  type InstallScopeFlags,
  portsFor,
} from "./install/context.ts";
import { withInstallLock } from "./install/install-lock.ts";
import { printResult } from "./program/output.ts";
import { alignColumns } from "./program/table.ts";

type ChangeFlags = InstallScopeFlags & { readonly timeoutSeconds: number };

/** Options and action of the verb. */
export function configureService(command: Command): void {
  addInstallScopeFlags(command).addOption(outputFlag()).action(show);
}

/** Options and action of the verb. */
export function configureStart(command: Command): void {
  addTimeout(command).action((flags: ChangeFlags) =>
    change(flags, (ports, choices) => start(ports, choices, "load", flags.timeoutSeconds * 1_000)),
  );
}

/** Options and action of the verb. */
export function configureStop(command: Command): void {
  addInstallScopeFlags(command).action((flags: InstallScopeFlags) => change(flags, stop));
}

/** Options and action of the verb. */
export function configureRestart(command: Command): void {
  addTimeout(command).action((flags: ChangeFlags) =>
    change(flags, (ports, choices) => start(ports, choices, "restart", flags.timeoutSeconds * 1_000)),
  );
}

async function change(
  flags: InstallScopeFlags,
  act: (ports: InstallPorts, choices: Choices) => Promise<void>,
): Promise<void> {
  const choices = await existingChoices(flags);
  const ports = portsFor(choices);
  await withInstallLock(choices, ports, () => act(ports, choices));
}

function addTimeout(command: Command): Command {
  return addInstallScopeFlags(command).option(
    "--timeout-seconds <n>",
    "time limit in seconds for the start of the agent",
    parseSeconds,
    20,
  );
}

async function show(flags: InstallScopeFlags & { readonly output: OutputFormat }): Promise<void> {
  const choices = await existingChoices(flags);
  const state = await serviceState(portsFor(choices), choices);
  printResult(flags.output, state, renderServiceState);
}

/** Pure. */
export function renderServiceState(state: InstalledServiceState): string {
  const { manager, scope, current, previous, definition, stateDir, logs, engines, differing } = state;
  const rows = [
    [
      "version",
      `${current ?? "none"}${previous === undefined || previous === current ? "" : ` (before: ${previous})`}`,
    ],
    ["service", `${manager}, ${scope}: ${describeJob(state.job)}`],
    ["agent", describeAgent(state.agent)],
    [
      "engines",
      engines === undefined
        ? "unknown: this user may not read the state folder (use sudo), or a parent folder belongs to another account"
        : String(engines),
    ],
    ["definition", definition],
    ["state", stateDir],
    ["log", logs],
  ];
  const notes = differing.map(
    (path) => `${path} differs from what install writes; to restore it: sudo metalbridge install`,
  );
  return [...alignColumns(rows), ...notes].join("\n");
}

function describeJob(job: ManagedJob): string {
  const disabled = job.isDisabled ? ", disabled" : "";
  if (job.at === "absent") return `not loaded${disabled}`;
  const pid = job.pid === undefined ? "" : `, pid ${job.pid}`;
  const last = job.lastExit === undefined || job.pid !== undefined ? "" : `, last exit ${job.lastExit}`;
  return `${job.state}${pid}${last}${disabled}`;
}

function describeAgent(agent: ObservedAgent): string {
  if (agent.at === "none") return "not running";
  if (agent.at === "unknown") return `unknown: ${agent.why}`;
  const readiness = agent.troubles.length === 0 ? "ready" : `not ready: ${agent.troubles.join(", ")}`;
  return `pid ${agent.pid}, version ${agent.version}, ${agent.phase === "serving" ? readiness : "starting"}`;
}
