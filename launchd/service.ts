/** The commands start, stop, restart and uninstall, and the state for `metalbridge service`. */
import { lstatSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { MetalbridgeError } from "../src/api/errors.ts";
import { createApply } from "./apply.ts";
import { awaitHealthy, tailOfLogs } from "./health.ts";
import { applyAll, printSteps } from "./install.ts";
import type { InstallLayout } from "./layout/layout.ts";
import { observeInstallation } from "./observe.ts";
import type { Choices } from "./plan/entries.ts";
import { type ObservedInstallation, runsOf } from "./plan/observed.ts";
import type { InstallStep } from "./plan/steps.ts";
import { MODEL_STORE, planUninstall } from "./plan/uninstall.ts";
import type { InstallPorts } from "./ports.ts";
import { enginesRunning } from "./stop-engines.ts";

/** Stops the agent until the next boot or start. Engines keep running, but leave their Services once the Lease has expired. */
export async function stop(ports: InstallPorts, choices: Choices): Promise<void> {
  const { job, engines } = await observeInstallation(ports, choices);
  if (job.at === "absent") return ports.print("the agent is already stopped");
  await ports.supervisor.unload();
  const running = engines ? `; ${engines} engines keep running, and leave their Services after 40 s` : "";
  ports.print(`the agent is stopped${running}`);
}

/** Starts or restarts the agent, and waits until it serves. Engines keep running and are adopted. */
export async function start(
  ports: InstallPorts,
  choices: Choices,
  verb: "load" | "restart",
  withinMs: number,
): Promise<void> {
  const { layout } = choices;
  const observed = await observeInstallation(ports, choices);
  const { current, job } = observed;
  if (current === undefined)
    throw new MetalbridgeError("InstallNotFound", `${layout.prefix} has no current version`);
  refuseForeign(choices, observed);
  await ports.supervisor[verb]();
  const outcome = await awaitHealthy(ports, layout, {
    version: current,
    knownProblems: undefined,
    runsBefore: runsOf(job),
    withinMs,
  });
  if (outcome.is !== "healthy")
    throw new MetalbridgeError("ServiceUnhealthy", `${outcome.why}${tailOfLogs(layout)}`);
  ports.print(`the agent runs, version ${current}`);
}

export interface UninstallOptions {
  /** Removes the model store too. */
  readonly purge: boolean;
  /** Drains and stops running engines. */
  readonly stopEngines: boolean;
  readonly dryRun: boolean;
}

export async function uninstall(
  ports: InstallPorts,
  choices: Choices,
  options: UninstallOptions,
): Promise<void> {
  const { layout } = choices;
  const observed = await observeInstallation(ports, choices);
  refuseForeign(choices, observed);
  // An unknown number of engines is refused before anything is stopped, because a drain cannot make it known.
  const isRefused = observed.engines === undefined || (observed.engines !== 0 && !options.stopEngines);
  if (isRefused && !options.dryRun) throw enginesRunning(layout, observed.engines, "run on this host");
  const stateEntries = await readdir(layout.stateDir).catch(() => undefined);
  const planned = planUninstall({ layout, observed, purge: options.purge, stateEntries });
  const steps = planned.filter((step) => isNeeded(step, layout));
  if (options.dryRun) return printSteps(ports, steps);
  await applyAll(ports, steps, createApply(ports, layout));
  const keepsModels = !options.purge && stateEntries?.includes(MODEL_STORE) === true;
  ports.print(keepsModels ? `removed; the models remain in ${layout.stateDir}` : "removed");
}

/** Skips the removal of paths that an interrupted run has already removed. */
function isNeeded(step: InstallStep, { definition }: InstallLayout): boolean {
  if (step.do === "forget") return exists(definition);
  return step.do === "remove" || step.do === "remove if empty" ? exists(step.path) : true;
}

/** A link without a target exists too. */
function exists(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

function refuseForeign({ layout }: Choices, { job }: ObservedInstallation): void {
  if (job.at === "loaded" && job.path !== undefined && job.path !== layout.definition)
    throw new MetalbridgeError("ServiceForeign", `the running service was loaded from ${job.path}`);
}

/** The state for `metalbridge service`. `differing`: paths that install would change. */
export interface InstalledServiceState
  extends Pick<ObservedInstallation, "current" | "previous" | "versions" | "job" | "agent" | "engines"> {
  readonly manager: string;
  readonly scope: string;
  readonly definition: string;
  readonly stateDir: string;
  readonly logs: string;
  readonly differing: readonly string[];
}

export async function serviceState(ports: InstallPorts, choices: Choices): Promise<InstalledServiceState> {
  const { layout } = choices;
  const { current, previous, versions, job, agent, engines, entries } = await observeInstallation(
    ports,
    choices,
  );
  const { manager, scope, definition, stateDir, agentLog } = layout;
  return {
    manager,
    scope,
    current,
    previous,
    versions,
    definition,
    stateDir,
    job,
    agent,
    engines,
    logs: agentLog ?? "journalctl -u metalbridge-agent",
    differing: entries
      .filter(({ state }) => state.is === "missing" || state.is === "different")
      .map(({ entry }) => entry.path),
  };
}
