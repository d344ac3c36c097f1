/** Install and upgrade: observe, plan, apply, and check that the new version serves. If it does not, roll back. */
import { lstat, readdir } from "node:fs/promises";
import { dirname } from "node:path";
import { MetalbridgeError } from "../src/api/errors.ts";
import { readPlainFile } from "../src/util/plain-file.ts";
import { accountControlling } from "./account-files.ts";
import { type ApplyInstallStep, createApply } from "./apply.ts";
import { readChoices } from "./choices.ts";
import { awaitHealthy, tailOfLogs } from "./health.ts";
import { placesBelow } from "./layout/layout.ts";
import { observeInstallation, uidOf, unmountedVolume } from "./observe.ts";
import type { Choices, ProvidedFiles } from "./plan/entries.ts";
import {
  type PreviousInstall,
  planCleanup,
  planInstall,
  planRollback,
  type ReplacedFile,
} from "./plan/install.ts";
import { type ObservedInstallation, runsOf } from "./plan/observed.ts";
import { installRefusalOf } from "./plan/refuse.ts";
import { describeStep, type InstallStep } from "./plan/steps.ts";
import type { InstallPorts } from "./ports.ts";
import type { ReleaseSource } from "./release/stage.ts";

/** Maximum size of a configuration, a definition or the record of an installation. */
const MAX_BYTES = 1 << 20;

export interface InstallInput {
  readonly choices: Choices;
  readonly given: ProvidedFiles;
  readonly source: ReleaseSource;
  readonly allowDowngrade: boolean;
  readonly takeOver: boolean;
  /** Prints the steps and changes nothing. */
  readonly dryRun: boolean;
  /** Time limit for the agent to serve. */
  readonly healthyWithinMs: number;
}

/** Throws MetalbridgeError. Another run continues where an interrupted or failed run stopped. */
export async function install(ports: InstallPorts, input: InstallInput): Promise<void> {
  const { choices, given, source, dryRun } = input;
  const { layout } = choices;
  const { version } = source.manifest;
  const observed = await observeInstallation(ports, choices, given, source.manifest).catch(
    (error: unknown) => {
      throw explainDiskFull(error, `use ${layout.stateDir}`);
    },
  );
  await refuse(ports, input, observed);
  const steps = planInstall(layout, version, observed);
  if (dryRun) return printSteps(ports, steps);
  const before = { version: observed.current, replaced: replacedBy(steps) };
  let runsBefore = runsOf(observed.job);
  const apply = createApply(ports, layout, source);
  const counting: ApplyInstallStep = async (step) => {
    // The count starts at 0 after a load. Before a restart it is read again, because the old agent may have crashed meanwhile.
    if (step.do === "load" || step.do === "reload") runsBefore = 0;
    if (step.do === "restart") runsBefore = runsOf(await ports.supervisor.observe());
    await apply(step);
  };
  const run = { apply: counting, before };
  await change(ports, input, steps, run);
  const outcome = await awaitHealthy(ports, layout, {
    version,
    knownProblems: knownProblems(observed),
    runsBefore,
    withinMs: input.healthyWithinMs,
  });
  if (outcome.is !== "healthy") return rollBack(ports, input, run, outcome.why);
  await applyAll(ports, planCleanup(layout, await observeInstallation(ports, choices, given)), run.apply);
  ports.print(
    steps.length === 0 ? `version ${version} runs already` : `version ${version} is installed and runs`,
  );
}

interface Run {
  readonly apply: ApplyInstallStep;
  readonly before: PreviousInstall;
}

/** Restores the replaced files if a step fails, because the next start would otherwise find an incomplete change. */
async function change(
  ports: InstallPorts,
  input: InstallInput,
  steps: readonly InstallStep[],
  run: Run,
): Promise<void> {
  const done: InstallStep[] = [];
  try {
    await applyAll(ports, steps, async (step) => {
      await run.apply(step);
      done.push(step);
    });
  } catch (error) {
    const made = new Set(done.map((step) => (step.do === "make" ? step.entry.path : undefined)));
    const replaced = run.before.replaced.filter(({ path }) => made.has(path));
    if (replaced.length > 0 || done.some((step) => step.do === "switch"))
      await restorePrevious(ports, input, { ...run, before: { ...run.before, replaced } }).then(
        (restored) => restored !== undefined && ports.print(restored.message),
        (other: unknown) => ports.print(`the rollback failed: ${String(other)}`),
      );
    throw error;
  }
}

/** Applies the steps in order. System errors become InstallFailed or InstallDiskFull. */
export async function applyAll(
  ports: InstallPorts,
  steps: readonly InstallStep[],
  apply: ApplyInstallStep,
): Promise<void> {
  for (const step of steps) {
    ports.print(describeStep(step));
    try {
      await apply(step);
    } catch (error) {
      throw explainDiskFull(error, describeStep(step));
    }
  }
}

export function printSteps(ports: InstallPorts, steps: readonly InstallStep[]): void {
  for (const step of steps) ports.print(`would ${describeStep(step)}`);
  if (steps.length === 0) ports.print("nothing to do");
}

/** Reads the files that the steps will replace. After a killed run this is unknown, and its files remain. */
function replacedBy(steps: readonly InstallStep[]): readonly ReplacedFile[] {
  return steps.flatMap((step) => {
    if (step.do !== "make" || step.because !== "differs") return [];
    const { entry } = step;
    if (entry.kind !== "file" || entry.keepsExisting || entry.owner !== "installer") return [];
    const text = readPlainFile(entry.path, { maxBytes: MAX_BYTES });
    return text === entry.text ? [] : [{ path: entry.path, text }];
  });
}

async function refuse(
  ports: InstallPorts,
  input: InstallInput,
  observed: ObservedInstallation,
): Promise<void> {
  const { choices, source, allowDowngrade, takeOver } = input;
  const { layout } = choices;
  const account = layout.account === undefined ? undefined : await ports.accounts.observe(layout.account);
  const refusal = installRefusalOf(
    {
      layout,
      version: source.manifest.version,
      euid: ports.euid,
      allowDowngrade,
      takeOver,
      stateOwner: (await lstat(layout.stateDir).catch(() => undefined))?.uid,
      stateEntries: await readdir(layout.stateDir).catch(() => undefined),
      aboveState: ports.euid === 0 ? accountControlling(dirname(layout.stateDir)) : undefined,
      unmounted: layout.manager === "launchd" ? await unmountedVolume(layout.stateDir) : undefined,
      accountUid: layout.account === undefined ? ports.euid : uidOf(account),
    },
    observed,
  );
  if (refusal !== undefined) throw refusal;
}

/** The problems of the previous version, which are no fault of the new one. A first install may have no cluster yet. */
function knownProblems({ agent, current }: ObservedInstallation): readonly string[] | undefined {
  return current !== undefined && agent.at === "answers" && agent.phase === "serving"
    ? agent.troubles
    : undefined;
}

/** Minimum time for the previous version to serve. It is long enough for a busy machine, because this version is proven. */
const ROLLBACK_MS = 60_000;

async function rollBack(ports: InstallPorts, input: InstallInput, run: Run, problem: string): Promise<never> {
  const message = `version ${input.source.manifest.version} does not serve: ${problem}`;
  const logs = tailOfLogs(input.choices.layout);
  ports.print(message);
  const restored = await restorePrevious(ports, input, run);
  if (restored === undefined) throw new MetalbridgeError("ServiceUnhealthy", `${message}${logs}`);
  const code = restored.isHealthy ? "UpgradeRolledBack" : "RollbackFailed";
  throw new MetalbridgeError(code, `${message}; ${restored.message}${logs}`);
}

/** Undefined if there is no previous state to restore. */
async function restorePrevious(
  ports: InstallPorts,
  { choices, given, source, healthyWithinMs }: InstallInput,
  { apply, before }: Run,
): Promise<{ readonly isHealthy: boolean; readonly message: string } | undefined> {
  const { layout } = choices;
  const { version } = source.manifest;
  const now = await observeInstallation(ports, choices, given);
  const steps = planRollback(layout, now, before);
  if (steps.length === 0) return undefined;
  const previous = steps.find((step) => step.do === "switch")?.version;
  const target = previous ?? now.current ?? version;
  await applyAll(ports, steps, apply);
  // The restored record may name another state folder, and with it another socket.
  const restored = await readChoices(layout.prefix).catch(() => undefined);
  const outcome = await awaitHealthy(ports, restored?.layout ?? layout, {
    version: target,
    knownProblems: undefined,
    runsBefore: undefined,
    withinMs: Math.max(healthyWithinMs, ROLLBACK_MS),
  });
  const files = before.replaced.map(({ path }) => path).join(", ");
  const withFiles = files === "" ? "" : `, with ${files} as before`;
  if (outcome.is !== "healthy")
    return { isHealthy: false, message: `version ${target}${withFiles}: ${outcome.why}` };
  const failed = `${placesBelow(layout.prefix).versions}/${version}`;
  const remove: readonly InstallStep[] =
    previous === undefined ? [] : [{ do: "remove", path: failed, owner: "installer" }];
  const after = await observeInstallation(ports, choices, given);
  await applyAll(ports, [...remove, ...planCleanup(layout, after)], apply);
  return { isHealthy: true, message: `version ${target} runs again${withFiles}` };
}

/** A full disk has a separate code. */
export function explainDiskFull(error: unknown, what: string): unknown {
  if (error instanceof MetalbridgeError || !(error instanceof Error) || !("code" in error)) return error;
  const code = error.code === "ENOSPC" || error.code === "EDQUOT" ? "InstallDiskFull" : "InstallFailed";
  return new MetalbridgeError(code, `cannot ${what}: ${error.message}`, undefined, { cause: error });
}
