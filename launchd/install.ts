/** Install and upgrade: observe, plan, apply, and judge the version that runs now; back to the one before if it does not serve. */
import { dirname } from "node:path";
import { MetalbridgeError } from "../src/api/errors.ts";
import { readPlainFile } from "../src/util/plain-file.ts";
import { accountControlling } from "./account-files.ts";
import { type ApplyInstallStep, createApply } from "./apply.ts";
import { readChoices } from "./choices.ts";
import { awaitHealthy, type HealthOutcome, tailOfLogs } from "./health.ts";
import { placesBelow } from "./layout/layout.ts";
import {
  listFolderOrUndefined,
  observeInstallation,
  ownerOfState,
  uidOf,
  unmountedVolume,
} from "./observe.ts";
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
  /** Print the steps and change nothing. */
  readonly dryRun: boolean;
  /** How long the agent may take until it serves. */
  readonly healthyWithinMs: number;
}

/** Throws MetalbridgeError; an interrupted or failed run continues where it stopped when it is run again. */
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
    // A definition that is loaded again counts from 0. While a version was copied, the old agent may have crashed.
    if (step.do === "load" || step.do === "reload") runsBefore = 0;
    if (step.do === "restart") runsBefore = runsOf(await ports.supervisor.observe());
    await apply(step);
  };
  const run = { apply: counting, before };
  await change(ports, input, steps, run);
  const outcome = await awaitHealthy(ports, layout, {
    version,
    knownTroubles: knownTroubles(observed),
    runsBefore,
    withinMs: input.healthyWithinMs,
  });
  if (!outcome.healthy) return rollBack(ports, input, run, outcome);
  await applyAll(ports, planCleanup(layout, await observeInstallation(ports, choices, given)), run.apply);
  ports.print(
    steps.length === 0 ? `version ${version} runs already` : `version ${version} is installed and runs`,
  );
}

interface Run {
  readonly apply: ApplyInstallStep;
  readonly before: PreviousInstall;
}

/** When a step fails, what was replaced before it is put back: the next start would find half of the change. */
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
      await goBack(ports, input, { ...run, before: { ...run.before, replaced } }).then(
        (back) => back !== undefined && ports.print(back.says),
        (other: unknown) => ports.print(`the rollback failed: ${String(other)}`),
      );
    throw error;
  }
}

/** Applies in order; the system's errors become InstallFailed or InstallDiskFull. */
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

/** Read before the steps are done. A run that was killed has no memory of it: its files stay as they are. */
function replacedBy(steps: readonly InstallStep[]): readonly ReplacedFile[] {
  return steps.flatMap((step) => {
    if (step.do !== "make" || step.because !== "differs") return [];
    const { entry } = step;
    if (entry.kind !== "file" || entry.isKept || entry.owner !== "installer") return [];
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
      stateOwner: await ownerOfState(layout.stateDir),
      stateEntries: await listFolderOrUndefined(layout.stateDir),
      aboveState: ports.euid === 0 ? accountControlling(dirname(layout.stateDir)) : undefined,
      unmounted: layout.manager === "launchd" ? await unmountedVolume(layout.stateDir) : undefined,
      accountUid: layout.account === undefined ? ports.euid : uidOf(account),
    },
    observed,
  );
  if (refusal !== undefined) throw refusal;
}

/** What kept the version before from being ready is no fault of the new one; a first install may have no cluster yet. */
function knownTroubles({ agent, current }: ObservedInstallation): readonly string[] | undefined {
  return current !== undefined && agent.at === "answers" && agent.phase === "serving"
    ? agent.troubles
    : undefined;
}

/** The version before has served: it gets the time that an agent takes on a busy machine, whatever the new one had. */
const BACK_MS = 60_000;

async function rollBack(
  ports: InstallPorts,
  input: InstallInput,
  run: Run,
  { why }: HealthOutcome,
): Promise<never> {
  const message = `version ${input.source.manifest.version} does not serve: ${why}`;
  const logs = tailOfLogs(input.choices.layout);
  ports.print(message);
  const back = await goBack(ports, input, run);
  if (back === undefined) throw new MetalbridgeError("ServiceUnhealthy", `${message}${logs}`);
  const code = back.healthy ? "UpgradeRolledBack" : "RollbackFailed";
  throw new MetalbridgeError(code, `${message}; ${back.says}${logs}`);
}

/** Undefined when there is nothing to go back to. */
async function goBack(
  ports: InstallPorts,
  { choices, given, source, healthyWithinMs }: InstallInput,
  { apply, before }: Run,
): Promise<{ readonly healthy: boolean; readonly says: string } | undefined> {
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
  const back = await awaitHealthy(ports, restored?.layout ?? layout, {
    version: target,
    knownTroubles: undefined,
    runsBefore: undefined,
    withinMs: Math.max(healthyWithinMs, BACK_MS),
  });
  const files = before.replaced.map(({ path }) => path).join(", ");
  const as = files === "" ? "" : `, with ${files} as before`;
  if (!back.healthy) return { healthy: false, says: `version ${target}${as}: ${back.why}` };
  const bad: InstallStep = {
    do: "remove",
    path: `${placesBelow(layout.prefix).versions}/${version}`,
    owner: "installer",
  };
  const after = await observeInstallation(ports, choices, given);
  await applyAll(ports, [...(previous === undefined ? [] : [bad]), ...planCleanup(layout, after)], apply);
  return { healthy: true, says: `version ${target} runs again${as}` };
}

/** A full disk has a code of its own. */
export function explainDiskFull(error: unknown, what: string): unknown {
  if (error instanceof MetalbridgeError || !(error instanceof Error) || !("code" in error)) return error;
  const code = error.code === "ENOSPC" || error.code === "EDQUOT" ? "InstallDiskFull" : "InstallFailed";
  return new MetalbridgeError(code, `cannot ${what}: ${error.message}`, undefined, { cause: error });
}
